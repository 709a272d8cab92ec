# shellcheck shell=bash
# Functions for Debian's packages, for several tools. They source this file, and define give_up, which ends them with a
# message.
#
# DEBIAN_MIRROR is a mirror of Debian, for machines whose own package sources have none.

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Prints the mirror of the machine's own packages.
debian_mirror() {
    local found=${DEBIAN_MIRROR:-}
    # These are fields of apt, not variables of the shell.
    # shellcheck disable=SC2016
    [ -n "$found" ] || found=$(apt-get indextargets --format '$(LABEL) $(CREATED_BY) $(REPO_URI)' |
        awk '$1 == "Debian" && $2 == "Packages" && !seen++ { print $3 }')
    [ -n "$found" ] || give_up "apt-get has no mirror of Debian: set DEBIAN_MIRROR"
    echo "$found"
}

# Sets debian_apt_options: options with which apt-get and apt-cache use one suite and separate lists, and change nothing
# on the machine. Downloads the lists, and checks their signatures.
debian_apt_options=()
debian_use_suite() { # suite, folder for the lists, deb or deb-src, a keyring if not the machine's
    local from keyring=${4:-/usr/share/keyrings/debian-archive-keyring.gpg}
    from=$(debian_mirror) || return
    mkdir -p "$2/lists/partial" "$2/cache/archives/partial"
    echo "$3 [signed-by=$keyring] $from $1 main" > "$2/sources.list"
    # The sandbox user could not write into the folder.
    debian_apt_options=(-o "Dir::State::Lists=$2/lists" -o "Dir::Cache=$2/cache" -o "Dir::Etc::SourceList=$2/sources.list"
        -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Status=/dev/null
        -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null
        -o APT::Sandbox::User=root)
    apt-get -qq "${debian_apt_options[@]}" update
}
