# Completion of lockctl for bash. After the lock of `run` it completes the command as bash would.

# Prints the index of the command of `run`. Before it are options with their values, the lock, and perhaps "--".
_lockctl_command_at() {
    local i=2
    while ((i < COMP_CWORD)); do
        case ${COMP_WORDS[i]} in
            -u | --url | -w | --wait | -E | --conflict-exit-code | -l | --lease | --at-least | --semaphore | --replicas | --owner | \
                --grace | --timeout) ((i += 2)) ;;
            -*) ((i += 1)) ;;
            *) break ;;
        esac
    done
    ((i += 1)) # the lock
    [[ ${COMP_WORDS[i]:-} != -- ]] || ((i += 1))
    echo "$i"
}

_lockctl_locks() {
    local line
    lockctl ls --timeout 1 2> /dev/null | while read -r line _; do [[ $line == LOCK ]] || echo "$line"; done
}

_lockctl() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} at
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "run ls top --help --version" -- "$word")
        return
    fi
    case $before in
        -u | --url)
            mapfile -t COMPREPLY < <(compgen -W "redis:// rediss:// valkey:// valkeys:// unix:// redis+sentinel:// redis+cluster://" -- "$word")
            return
            ;;
        -w | --wait | -E | --conflict-exit-code | -l | --lease | --at-least | --semaphore | --replicas | --owner | --grace | \
            --timeout | --interval | --count) return ;;
    esac
    case ${COMP_WORDS[1]} in
        ls) mapfile -t COMPREPLY < <(compgen -W "--url --json --timeout --help" -- "$word") ;;
        top) mapfile -t COMPREPLY < <(compgen -W "--url --once --json --interval --count --timeout --help" -- "$word") ;;
        run)
            at=$(_lockctl_command_at)
            if ((COMP_CWORD >= at)); then
                if declare -F _command_offset > /dev/null; then
                    _command_offset "$at"
                elif ((COMP_CWORD == at)); then
                    mapfile -t COMPREPLY < <(compgen -c -- "$word")
                else
                    mapfile -t COMPREPLY < <(compgen -f -- "$word")
                fi
            elif [[ $word == -* ]]; then
                mapfile -t COMPREPLY < <(compgen -W "--url --wait --nonblock --conflict-exit-code --quiet --lease \
                    --session --at-least --fair --shared --exclusive --semaphore --replicas --owner --grace --timeout --help" -- "$word")
            else
                mapfile -t COMPREPLY < <(compgen -W "$(_lockctl_locks)" -- "$word")
            fi
            ;;
    esac
}

complete -F _lockctl lockctl
