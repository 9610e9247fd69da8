"""Completion in bash, zsh and fish: the scripts that shells read, and how each of them asks.

A script asks `mcmc` itself, by an environment variable as click has it, whenever somebody presses
Tab. bash and fish have scripts of ours: bash breaks words at colons, as in `zoo:bert`, and click's
script for fish cuts what is offered at commas, as in pipelines. What goes wrong stays silent, since
nothing may be printed amid a line that is being typed.
"""

from __future__ import annotations

import os

import click
from click import shell_completion

PROGRAM = "mcmc"
VARIABLE = "_MCMC_COMPLETE"
"""Environment variable by which a shell asks, with values such as `bash_complete`."""

_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' line files=
    COMPREPLY=()
    while read -r line; do
        case $line in
            plain,*) COMPREPLY+=("${line#plain,}") ;;
            file,*) files=1 ;;
        esac
    done < <(COMP_WORDS="${COMP_LINE:0:COMP_POINT}" COMP_CWORD="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null)
    if [[ $files ]]; then
        compopt -o default
        if [[ ${#COMPREPLY[@]} -gt 0 ]]; then
            COMPREPLY+=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
        fi
    fi
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[.=] ]]; then
        compopt -o nospace
    fi
}
complete -F %(complete_func)s %(prog_name)s
"""

_FISH = """\
function %(complete_func)s
    set -l response (env %(complete_var)s=fish_complete COMP_WORDS=(commandline -cp) \
COMP_CWORD=(commandline -t) %(prog_name)s 2>/dev/null)
    for completion in $response
        set -l metadata (string split -m 1 "," -- $completion)
        if test $metadata[1] = "file"
            __fish_complete_path $metadata[2]
        else if test $metadata[1] = "plain"
            echo $metadata[2]
        end
    end
end
complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""


class _Bash(shell_completion.BashComplete):
    """bash, which hands over the line up to the cursor and the characters that break words."""

    source_template = _BASH

    @staticmethod
    def _check_version() -> None:
        """The script may be made for another machine."""

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_WORDS"]
        words = shell_completion.split_arg_string(line)[1:]
        typed = words.pop() if words and not line[-1:].isspace() else ""
        return words, typed

    def complete(self) -> str:
        args, typed = self.get_completion_args()
        option, equals, value = typed.partition("=")
        if option.startswith("--") and equals:
            args, typed = [*args, option], value
        breaks = os.environ["COMP_CWORD"]
        # bash replaces what stands behind the last of these only.
        kept = max((typed.rfind(mark) + 1 for mark in ":=" if mark in breaks), default=0)
        return "\n".join(
            f"{item.type},{item.value[kept:]}" for item in self.get_completions(args, typed)
        )


class _Zsh(shell_completion.ZshComplete):
    """zsh, with click's script, silenced."""

    source_template = shell_completion.ZshComplete.source_template.replace(
        "=zsh_complete %(prog_name)s)", "=zsh_complete %(prog_name)s 2>/dev/null)"
    )


class _Fish(shell_completion.FishComplete):
    """fish, whose scripts split at the first comma only."""

    source_template = _FISH


SHELLS = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


def script(shell: str, cli: click.Command) -> str:
    """Completion script of the command line for a shell.

    Args:
        shell: a key of `SHELLS`.
        cli: the command line.
    """
    return SHELLS[shell](cli, {}, PROGRAM, VARIABLE).source()


def answer_shells() -> None:
    """Has click answer each shell as its script here expects it."""
    for name, how in SHELLS.items():
        shell_completion.add_completion_class(how, name)
