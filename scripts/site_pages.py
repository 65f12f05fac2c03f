"""A hook of MkDocs: brings the pages that lie outside of docs/ into the site, and the files that pages lead to.

``README.md`` is the first page.  Pages and programs elsewhere in the checkout keep their paths.
"""

import re
from pathlib import Path
from posixpath import join, normpath, relpath
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)#\s]+)((?:#[^)]*)?\))")
PAGES = {
    "index.md": "README.md",
    **{name: name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md")},
}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages, and the programs of which the pages speak, each as a page with its text."""
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in PAGES.values()}
    texts |= {f"docs/{file.src_uri}": file.content_string for file in files.documentation_pages()}
    for place, path in PAGES.items():
        files.append(File.generated(config, place, content=_with_links_of_the_site(texts[path], path)))
    for file in files.documentation_pages():
        if f"docs/{file.src_uri}" in texts:
            file.content_string = _with_links_of_the_site(texts[f"docs/{file.src_uri}"], f"docs/{file.src_uri}")
    for target in sorted({target for path, text in texts.items() for target in _targets(text, path)}):
        place = _place(target)
        if (ROOT / target).is_file() and files.get_file_from_path(place) is None:
            program = File.generated(config, place, content=_shown(target))
            program.inclusion = InclusionLevel.NOT_IN_NAV
            files.append(program)
    return files


def _targets(text: str, path: str) -> list[str]:
    return [_in_checkout(target, path) for _, target, _ in LINK.findall(text) if "://" not in target]


def _in_checkout(target: str, path: str) -> str:
    """Return the path within the checkout of what a page links to."""
    return normpath(join(path, "..", target))


def _place(path: str) -> str:
    """Return the place in the site of a file of the checkout."""
    for place, page in PAGES.items():
        if path == page:
            return place
    return path.removeprefix("docs/") if path.startswith("docs/") else f"{path}.md"


def _with_links_of_the_site(text: str, path: str) -> str:
    """Return a page whose links lead to places in the site; those to folders, which have none, become text."""

    def link(match: re.Match[str]) -> str:
        begin, target, end = match.groups()
        if "://" in target:
            return match[0]
        wanted = _in_checkout(target, path)
        if (ROOT / wanted).is_dir():
            return begin[1:-2]
        return f"{begin}{relpath(_place(wanted), join(_place(path), '..'))}{end}"

    return LINK.sub(link, text)


def _shown(path: str) -> str:
    language = path.rpartition(".")[2].replace("py", "python")
    return f"# {path}\n\n```{language}\n{(ROOT / path).read_text(encoding='utf-8')}\n```\n"
