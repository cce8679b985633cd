# Sourced by check: the browser for the tests of the HTML page. Installs Debian's Chromium where that is possible;
# where it is not, those tests skip and say why. Sets nothing.

find_browser() { command -v chromium || command -v chromium-browser || command -v google-chrome; }

ensure_browser() { # never fails: without a browser the tests that need one skip
  find_browser >/dev/null && return 0
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    export DEBIAN_FRONTEND=noninteractive
    step "installing chromium" install_browser || say "  no browser: tests of the HTML page will skip"
  else
    say "· no chromium, and it cannot be installed here: tests of the HTML page will skip"
  fi
  return 0
}

install_browser() {
  apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null 2>&1 && return 0
  apt-get update -qq >/dev/null 2>&1 &&
    apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null 2>&1
}
