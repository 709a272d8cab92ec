# shellcheck shell=bash
# What several tools do with Debian's packages. Sourced by them; they define give_up, which ends them with a message.
#
# DEBIAN_MIRROR names a mirror where the machine's own package sources name none of Debian's.

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Prints the mirror that the machine's own packages come from.
debian_mirror() {
    local found=${DEBIAN_MIRROR:-}
    # The fields' names are apt's, not the shell's.
    # shellcheck disable=SC2016
    [ -n "$found" ] || found=$(apt-get indextargets --format '$(LABEL) $(CREATED_BY) $(REPO_URI)' |
        awk '$1 == "Debian" && $2 == "Packages" && !seen++ { print $3 }')
    [ -n "$found" ] || give_up "apt-get knows no mirror of Debian: set DEBIAN_MIRROR"
    echo "$found"
}

# Sets debian_apt_options: options of apt-get and apt-cache with which they use one suite and lists of their own, which
# touch nothing of the machine's. The lists are downloaded, and their signatures checked.
debian_apt_options=()
debian_use_suite() { # suite, folder for the lists, what to fetch: deb or deb-src; keyring if not the machine's
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
