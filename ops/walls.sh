# Sourced by check: what walls in the commands of a model (bubblewrap). Installs Debian's package where that is possible;
# where it is not, the tests that need it skip and say why. Sets nothing.

ensure_walls() { # never fails: without bubblewrap the tests that need it skip
  command -v bwrap >/dev/null && return 0
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    export DEBIAN_FRONTEND=noninteractive
    step "installing bubblewrap" install_walls || say "  no bubblewrap: tests of agents and their sandbox will skip"
  else
    say "· no bubblewrap, and it cannot be installed here: tests of agents and their sandbox will skip"
  fi
  return 0
}

install_walls() {
  apt-get install -y -qq --no-install-recommends bubblewrap git >/dev/null 2>&1 && return 0
  apt-get update -qq >/dev/null 2>&1 &&
    apt-get install -y -qq --no-install-recommends bubblewrap git >/dev/null 2>&1
}
