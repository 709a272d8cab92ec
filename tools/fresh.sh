# shellcheck shell=bash
# Fresh machines, for tools that check what happens on one. They source this file and define give_up, which ends them with
# a message; then they call fresh_machines.
#
# Debian is unpacked into a folder by debootstrap, once for each suite, and kept as build/fresh/SUITE.tar. The commands run
# in a copy of it, with chroot, which has the history of the project as /project.bundle, without uncommitted changes. The
# copy is always removed; mounts and processes in it end with its namespaces (unshare). What they leave in /dist is kept in
# build/dist/SUITE, and is there again in the next copy.
#
# apt and pip use the settings of this machine: mirror, proxies, CA certificates. DEBIAN_MIRROR: tools/debian.sh.

# shellcheck source=tools/debian.sh
. tools/debian.sh

FOLDER=$PWD/build/fresh

# The file is created at the end, and in one step, so that it is complete if it exists.
make_tarball() { # suite
    local root=$FOLDER/$1.new
    [ ! -e "$FOLDER/$1.tar" ] || return 0
    tools/setup servers
    as_root rm -rf "$root"
    PATH=$PATH:/usr/sbin:/sbin as_root debootstrap --variant=minbase --include=make,git "$1" "$root" "$mirror" \
        > "$FOLDER/debootstrap.log" || { tail -n 20 "$FOLDER/debootstrap.log" >&2; give_up "debootstrap failed"; }
    as_root rm -rf "$root"/var/cache/apt/archives/*.deb
    as_root tar -C "$root" -cf - . > "$FOLDER/$1.tar.new"
    as_root rm -rf "$root"
    mv "$FOLDER/$1.tar.new" "$FOLDER/$1.tar"
}

# What apt and pip need for downloads: this machine's host names, proxies and CA certificates. The certificates are in a
# separate file, because the package ca-certificates, if it is installed there, writes its own.
AUTHORITIES=${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}
copy_settings() { # root
    local file
    for file in /etc/hosts /etc/resolv.conf /etc/pip.conf; do
        [ ! -e $file ] || as_root install -D -m 644 $file "$1$file"
    done
    [ ! -e "$AUTHORITIES" ] || as_root install -m 644 "$AUTHORITIES" "$1/authorities.crt"
    {
        apt-config dump | grep -E '^Acquire::(https?|Check-[A-Za-z-]*|Retries)(::| )' || true
        [ ! -e "$AUTHORITIES" ] || echo 'Acquire::https::CAInfo "/authorities.crt";'
    } | as_root tee "$1/etc/apt/apt.conf.d/99machine" > /dev/null
    # Do not wait for the disk, because the data is not kept.
    echo force-unsafe-io | as_root tee "$1/etc/dpkg/dpkg.cfg.d/99machine" > /dev/null
}

# The environment: only the variables of this machine that apt and pip use.
settings() {
    env | grep -E '^(PIP_[A-Z_]*|https?_proxy|no_proxy|HTTPS?_PROXY|NO_PROXY)=' | grep -v '^PIP_CERT=' || true
    [ ! -e "$AUTHORITIES" ] || echo PIP_CERT=/authorities.crt
}

# When unshare ends, for whatever reason, all processes there end too, and with them the mounts.
in_fresh() { # root, commands, argument ...
    local root=$1
    shift
    local variables
    mapfile -t variables < <(settings)
    as_root unshare --mount --pid --fork --kill-child=KILL chroot "$root" \
        env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "${variables[@]}" \
        timeout --kill-after=10 1200 bash -c "$1" bash "${@:2}"
}

run_in_fresh() { # suite, what works there, commands, argument ...
    local suite=$1 what=$2 name=${0##*/} start=$SECONDS
    local root=$FOLDER/$suite.$name log=$FOLDER/$suite.$name.log
    shift 2
    as_root rm -rf --one-file-system "$root"
    as_root mkdir "$root"
    as_root tar -C "$root" -xpf "$FOLDER/$suite.tar"
    copy_settings "$root"
    git bundle create --quiet - HEAD | as_root tee "$root/project.bundle" > /dev/null
    mkdir -p "build/dist/$suite"
    as_root cp -r "build/dist/$suite" "$root/dist"
    in_fresh "$root" "$@" > "$log" 2>&1 < /dev/null || { tail -n 50 "$log" >&2; give_up "$suite failed; the full output is in $log"; }
    cp -r "$root/dist/." "build/dist/$suite"
    echo "$name: $suite: $what, in $((SECONDS - start)) s"
}

# Runs the commands on a fresh machine of each suite, in parallel: while one downloads, the other compiles. Returns 1 if
# they failed on one of them.
fresh_machines() { # the suites as one word, what works there, commands for bash, argument ...
    local suite pid failed=0
    read -ra suites <<< "$1"
    shift
    [ "$(id -u)" = 0 ] || command -v sudo > /dev/null || give_up "chroot must run as root, and there is no sudo"
    mirror=$(debian_mirror)
    mkdir -p "$FOLDER"
    for suite in "${suites[@]}"; do make_tarball "$suite"; done
    running=() # process groups
    trap remove_fresh EXIT
    # -m: a process group for each.
    set -m
    for suite in "${suites[@]}"; do
        run_in_fresh "$suite" "$@" &
        running+=($!)
    done
    set +m
    for pid in "${running[@]}"; do wait "$pid" || failed=1; done
    return $failed
}

# Bash also calls it when a signal ends the script.
# shellcheck disable=SC2317 # by trap
remove_fresh() {
    local pid suite
    for pid in "${running[@]}"; do kill -- "-$pid" 2> /dev/null || true; done
    wait || true
    for suite in "${suites[@]}"; do as_root rm -rf --one-file-system "$FOLDER/$suite.${0##*/}" "$FOLDER/$suite.new"; done
}
