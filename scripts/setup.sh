#!/usr/bin/env bash
# Installs what is needed to build (the default), to test, to run the benchmarks or to start servers of PostgreSQL on Debian 12
# and 13, as root or through sudo. When everything is there it only looks: no network, no apt, no sudo. On other systems it
# installs no packages: it goes on when libraries and programs are there, and otherwise names the packages to install.
#
#   scripts/setup.sh [build|test|bench|postgres]

set -euo pipefail
cd "$(dirname "$0")/.."

purpose=${1:-build}
libraries=(pkg-config libsqlite3-dev libxml2-dev libssl-dev libc-ares-dev libcurl4-openssl-dev libmicrohttpd-dev libpq-dev)
peers=.build/peers
own_source=/etc/apt/sources.list.d/durable-handlers-backports
lock_seconds=120

say() { printf 'setup: %s\n' "$*"; }
fail() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

case $purpose in
    build) packages=("${libraries[@]}") ;;
    test) packages=("${libraries[@]}" libomemo-c-dev sqlite3 strace openssl python3-venv chromium tzdata profanity) ;;
    bench) packages=("${libraries[@]}" python3-venv libstrophe-dev) ;;
    postgres) packages=(python3) ;;
    *) fail "unknown purpose '$purpose': say build, test, bench or postgres." ;;
esac

# What those packages hold, for systems whose packages have other names.
modules=(sqlite3 libxml-2.0 openssl libcares libcurl libmicrohttpd libpq)
case $purpose in
    build) programs=(pkg-config) ;;
    test)
        modules+=(libomemo-c)
        programs=(pkg-config sqlite3 strace openssl python3 prosody ejabberdctl initdb profanity promtool)
        ;;
    bench)
        modules+=(libstrophe)
        programs=(pkg-config python3 initdb)
        ;;
    postgres)
        modules=()
        programs=(python3 initdb)
        ;;
esac

# What comes from pip, in a virtual environment of its own: each version and the digest of each file.
case $purpose in
    build | postgres) peer_lock='' ;;
    test | bench) peer_lock=scripts/peers/$purpose.txt ;;
esac

# MARK: What is there

installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

installed_since() {
    installed "$1" && dpkg --compare-versions "$(dpkg-query -W -f '${Version}' "$1")" ge "$2"
}

# Prosody 13 is needed: on older ones mod_sasl2 fails. ejabberd has SASL2 and FAST since 24.10.
servers_installed() {
    installed_since prosody 13 && installed prosody-modules && installed_since ejabberd 24.10 && installed prometheus
}

peers_installed() { [ -x "$peers/bin/python" ] && cmp -s "$peer_lock" "$peers/.$purpose.txt"; }

# MARK: apt

become_root() {
    root=()
    [ "$(id -u)" = 0 ] && return
    command -v sudo >/dev/null ||
        fail "packages must be installed ($*): run this as root, or install sudo."
    root=(sudo)
    sudo -n true 2>/dev/null && return
    [ -t 0 ] || fail "packages must be installed ($*) and sudo asks for a password: run 'make setup' in a terminal."
    say "sudo is needed to install: $*"
}

apt_get() {
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -o DPkg::Lock::Timeout=$lock_seconds -o Acquire::Retries=3 \
        -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold "$@"
}

# The lock of the package lists, unlike dpkg's, has no timeout of its own.
refresh_lists() {
    local waited=0 output
    while ! output=$(apt_get update 2>&1); do
        if [[ $output != *"Could not get lock"* ]]; then
            # A source that does not matter here may be broken; what does matter, the installation will tell.
            printf '%s\n' "$output" >&2
            return
        fi
        [ $waited -lt $lock_seconds ] || fail "another process has held apt's lock for $lock_seconds seconds: try again."
        sleep 2
        waited=$((waited + 2))
    done
}

install_packages() {
    say "installing $*"
    apt_get install -y --no-install-recommends "$@" >"$log" 2>&1 || {
        cat "$log" >&2
        fail "apt could not install $*; see above. Without a network this cannot be done."
    }
}

# MARK: bookworm-backports

backports_configured() {
    [ -n "$(apt-get indextargets --format '$(RELEASE)' 'Created-By: Packages' 'Release: bookworm-backports')" ]
}

# The machine's own entry for Debian's main archive, as "address file". A mirror may carry another label, so an entry
# that merely has the right name is the second choice.
archive_entry() {
    local form='$(REPO_URI) $(SOURCESENTRY)' filters=('Created-By: Packages' 'Release: bookworm' 'Component: main')
    {
        apt-get indextargets --format "$form" "${filters[@]}" 'Label: Debian'
        apt-get indextargets --format "$form" "${filters[@]}"
    } | sed -n '1s/:[0-9]*$//p'
}

# Copies that entry with another suite, so that keys and options stay as they are.
backports_entry() {
    local address=${1%/} file=$2
    case $file in
        *.sources)
            awk -v address="$address" '
                BEGIN { RS = ""; FS = "\n" }
                {
                    uris = ""; suites = ""
                    for (i = 1; i <= NF; i++) {
                        if ($i ~ /^URIs:/) uris = $i " "
                        if ($i ~ /^Suites:/) suites = $i " "
                    }
                    gsub(/\/ /, " ", uris)
                    if (!index(uris, " " address " ") || suites !~ /[ :]bookworm[ \/]/) next
                    for (i = 1; i <= NF; i++) {
                        if ($i ~ /^#/) continue
                        if ($i !~ /^[ \t]/) dropping = 0
                        if ($i ~ /^(Types|URIs|Suites|Components|Enabled):/) { dropping = 1; continue }
                        if (!dropping) kept = kept $i "\n"
                    }
                    printf "Types: deb\nURIs: %s\nSuites: bookworm-backports\nComponents: main\n%s", address, kept
                    exit
                }' "$file"
            ;;
        *)
            awk -v address="$address" '
                $1 == "deb" && index($0 " ", " " address " ") + index($0, " " address "/ ") {
                    options = match($0, /\[[^]]*\]/) ? substr($0, RSTART, RLENGTH) " " : ""
                    print "deb " options address " bookworm-backports main"
                    exit
                }' "$file"
            ;;
    esac
}

configure_backports() {
    backports_configured && return
    local address file entry kind=list
    read -r address file <<<"$(archive_entry)" || true
    [ -n "${file:-}" ] || fail "apt knows no Debian 12 archive (bookworm main): add one to /etc/apt and run 'apt-get update'."
    entry=$(backports_entry "$address" "$file")
    [ -n "$entry" ] || fail "the entry for bookworm in $file could not be understood: add bookworm-backports by hand."
    [[ $file == *.sources ]] && kind=sources
    say "adding bookworm-backports in $own_source.$kind"
    printf '%s\n' "$entry" | "${root[@]}" tee "$own_source.$kind" >/dev/null
    refresh_lists
    backports_configured && return
    "${root[@]}" rm -f "$own_source.$kind"
    fail "the archive that this machine uses has no bookworm-backports, from which Prosody 13 and ejabberd come."
}

# Debian starts a server when its package is installed. Here it must not: the tests run it as a child process.
install_servers() {
    local policy=/usr/sbin/policy-rc.d own_policy='' fresh=() server
    # epmd comes with Erlang, in which ejabberd is written.
    for server in prosody ejabberd epmd prometheus; do
        [ -e "/lib/systemd/system/$server.service" ] || [ -e "/etc/init.d/$server" ] || fresh+=("$server")
    done
    if [ ! -e $policy ]; then
        own_policy=yes
        trap '"${root[@]}" rm -f /usr/sbin/policy-rc.d' EXIT
        printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee $policy >/dev/null
        "${root[@]}" chmod 755 $policy
    fi
    install_packages ${server_source[@]+"${server_source[@]}"} prosody prosody-modules ejabberd prometheus
    if [ -n "$own_policy" ]; then
        "${root[@]}" rm -f $policy
        trap - EXIT
    fi
    for server in ${fresh[@]+"${fresh[@]}"}; do disable_service "$server"; done
}

# Nor at the next boot. Who wants the service says 'systemctl enable' and its name.
disable_service() {
    "${root[@]}" update-rc.d "$1" disable >/dev/null 2>&1 || true
    command -v systemctl >/dev/null || return 0
    for unit in "$1.service" "$1.socket"; do
        "${root[@]}" systemctl disable "$unit" >/dev/null 2>&1 || true
    done
}

# Debian makes a cluster and starts it when PostgreSQL is installed. Here it must not: the tests make their own. Other
# versions that are installed later get a cluster as usual.
install_postgres() {
    local folder=/etc/postgresql-common/createcluster.d
    own_setting=$folder/durable-handlers.conf
    trap '"${root[@]}" rm -f "$own_setting"' EXIT
    "${root[@]}" mkdir -p $folder
    echo 'create_main_cluster = false' | "${root[@]}" tee "$own_setting" >/dev/null
    install_packages "$1"
    "${root[@]}" rm -f "$own_setting"
    trap - EXIT
    "${root[@]}" rmdir $folder 2>/dev/null || true
}

# MARK: Python

make_peers() {
    [ -x "$peers/bin/python" ] && "$peers/bin/python" -m pip --version >/dev/null 2>&1 && return
    rm -rf "$peers"
    mkdir -p .build
    # Debian's own Python, for which python3-venv was installed, whatever else is first on PATH.
    /usr/bin/python3 -m venv "$peers" >"$log" 2>&1 || {
        cat "$log" >&2
        fail "python3 could not make a virtual environment in $peers; see above."
    }
}

install_peers() {
    say "installing what $peer_lock lists in $peers"
    make_peers
    # A source package would run its own code to be built, and fetch what that needs without a digest.
    "$peers/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes \
        --requirement "$peer_lock" >"$log" 2>&1 || {
        cat "$log" >&2
        fail "pip could not install what $peer_lock lists; see above. Without a network this cannot be done."
    }
    cp "$peer_lock" "$peers/.$purpose.txt"
}

# MARK: Other systems

# Looks for what the packages hold, and names the packages that usually hold it.
check_by_hand() {
    local missing=() name
    for name in "${programs[@]}"; do
        # Servers stand where only root looks, PostgreSQL's in a folder for each version.
        PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin:$(printf '%s:' /usr/lib/postgresql/*/bin)" command -v "$name" >/dev/null || missing+=("$name")
    done
    if command -v pkg-config >/dev/null; then
        for name in ${modules[@]+"${modules[@]}"}; do pkg-config --exists "$name" || missing+=("$name"); done
    fi
    [ -n "${missing[*]-}" ] || return 0
    cat >&2 <<TEXT
setup: not found here: ${missing[*]}
setup: packages are installed on Debian 12 and 13 only; on this system install them by hand and run this again.
  Ubuntu 24.04: apt-get install $(names ubuntu)
  Fedora:       dnf install $(names fedora)
  Debian:       apt-get install $(names debian)
TEXT
    [ "$purpose" != test ] ||
        echo "  The tests need Prosody 13 or newer with its community modules, and ejabberd 24.10 or newer." >&2
    exit 1
}

# names SYSTEM: the packages for the purpose.
names() {
    local tests='sqlite3 strace openssl python3-venv tzdata profanity postgresql prosody prosody-modules ejabberd prometheus'
    case $1-$purpose in
        fedora-build) echo pkgconf-pkg-config sqlite-devel libxml2-devel openssl-devel c-ares-devel libcurl-devel libmicrohttpd-devel libpq-devel ;;
        fedora-test) echo "$(purpose=build names fedora) libomemo-c-devel sqlite strace openssl python3 tzdata chromium profanity postgresql-server prosody ejabberd golang-github-prometheus" ;;
        fedora-bench) echo "$(purpose=build names fedora) libstrophe-devel python3 postgresql-server" ;;
        fedora-postgres) echo "python3 postgresql-server" ;;
        *-postgres) echo "python3 postgresql" ;;
        ubuntu-test) echo "${libraries[*]} libomemo-c-dev chromium-browser $tests" ;;
        *-test) echo "${libraries[*]} libomemo-c-dev chromium $tests" ;;
        *-bench) echo "${libraries[*]} libstrophe-dev python3-venv postgresql" ;;
        *) echo "${libraries[*]}" ;;
    esac
}

# MARK: The steps

[ "$purpose" = postgres ] || command -v swift >/dev/null || fail "there is no swift on PATH: install the Swift 6.3 toolchain first."

missing=()
want_servers=''
want_postgres=''
system=$(. /etc/os-release 2>/dev/null && echo "${ID-}-${VERSION_ID-}") || system=unknown
case $system in
    debian-12 | debian-13)
        for package in "${packages[@]}"; do installed "$package" || missing+=("$package"); done
        [ "$purpose" != test ] && [ "$purpose" != bench ] || servers_installed || want_servers=yes
        if [ "$purpose" != build ]; then
            want_postgres=postgresql-15
            [ "$system" = debian-12 ] || want_postgres=postgresql-17
            ! installed "$want_postgres" || want_postgres=''
        fi
        ;;
    *) check_by_hand ;;
esac
want_peers=''
[ -z "$peer_lock" ] || peers_installed || want_peers=yes

[ -n "${missing[*]-}$want_postgres$want_servers$want_peers" ] || exit 0

mkdir -p .build
log=.build/setup.log
if [ -n "${missing[*]-}$want_postgres$want_servers" ]; then
    become_root "${missing[*]-}${want_postgres:+ $want_postgres}${want_servers:+ prosody prosody-modules ejabberd prometheus}"
    say "reading the package lists"
    refresh_lists
    [ -z "${missing[*]-}" ] || install_packages "${missing[@]}"
    [ -z "$want_postgres" ] || install_postgres "$want_postgres"
    if [ -n "$want_servers" ]; then
        # Debian 13 has servers that are new enough.
        server_source=()
        if [ "$system" = debian-12 ]; then
            configure_backports
            server_source=(-t bookworm-backports)
        fi
        install_servers
    fi
fi
[ -z "$want_peers" ] || install_peers
say "ready to $purpose"
