"""`mcmc completion`: the script that has a shell complete verbs, options and names."""

from __future__ import annotations

import click

from mcm_compiler.cli.shell_scripts import SHELLS, script
from mcm_compiler.cli.show import show_json
from mcm_compiler.cli.verb import FORMAT, argument, verb


@verb(("completion bash > ~/.mcmc-completion",), plugins=False)
def command(
    shell: str = argument(type=click.Choice(list(SHELLS))), output_format: str = FORMAT
) -> None:
    """Print the script that completes verbs, options and names in a shell.

    \b
    bash   eval "$(mcmc completion bash)"       in ~/.bashrc
    zsh    eval "$(mcmc completion zsh)"        in ~/.zshrc, after compinit
    fish   mcmc completion fish | source        in ~/.config/fish/config.fish

    Components of --plugin files are not completed, because these files are not run.
    """  # noqa: D301
    context = click.get_current_context()
    text = script(shell, context.find_root().command)
    if output_format == "json":
        show_json({"shell": shell, "script": text})
    else:
        click.echo(text, nl=False)
