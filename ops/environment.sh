# Sourced by quickstart and check: finds a Python, makes .venv, installs soak into it; a second call takes seconds.
# Sets: VENV. Needs: Python >= 3.11 with venv, and a package index that pip can reach. Uses uv where it is present.

say() { printf '%s\n' "$*" >&2; }

step() { # step "what" command...: say what is done and how long it took
  local what=$1 began=$SECONDS
  shift
  say "· $what …"
  "$@" || { say "✗ $what failed after $((SECONDS - began)) s"; return 1; }
  say "  done in $((SECONDS - began)) s"
}

find_python() {
  local name
  for name in ${SOAK_PYTHON:-python3 python3.13 python3.12 python3.11}; do
    if "$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      printf '%s\n' "$name"
      return
    fi
  done
  say "error: no Python 3.11 or newer with venv was found"
  say "  why: soak needs it; looked for python3, python3.13, python3.12, python3.11"
  say "   do: install one (Debian: apt-get install python3 python3-venv), or name it: SOAK_PYTHON=/path/to/python $0"
  return 1
}

make_environment() { # make_environment "extras": .venv with soak[extras], made again if pyproject.toml changed
  local extras=$1 python wanted
  VENV=${SOAK_VENV:-.venv}
  wanted="$(cksum <pyproject.toml) $extras"
  if [ "$(cat "$VENV/.soak-installed" 2>/dev/null)" = "$wanted" ] && "$VENV/bin/python" -c 'import soak' 2>/dev/null; then
    say "· environment $VENV is up to date"
    return
  fi
  python=$(find_python) || return 1
  step "making the virtual environment $VENV with $("$python" --version)" "$python" -m venv --clear "$VENV" || return 1
  if command -v uv >/dev/null 2>&1; then
    step "installing soak with uv" uv pip install --quiet --python "$VENV/bin/python" -e ".$extras" || return 1
  else
    step "installing soak with pip" "$VENV/bin/python" -m pip install -qq --disable-pip-version-check -e ".$extras" || return 1
  fi
  printf '%s\n' "$wanted" >"$VENV/.soak-installed"
}
