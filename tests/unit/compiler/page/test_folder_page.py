import pytest

from mcm_compiler.artifact.layout import page_path
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.page.folder_page import write_page_beside, written_folder_page


def test_the_page_stands_beside_the_folder(tmp_path):
    assert page_path(tmp_path / "net.mcm4") == tmp_path / "net.mcm4.html"


def test_equal_folders_give_equal_pages(chain):
    folder = chain.folder.path
    assert written_folder_page(folder) == written_folder_page(folder)
    path = write_page_beside(folder)
    assert path.read_bytes() == written_folder_page(folder)


def test_what_is_no_output_folder_is_told(tmp_path):
    with pytest.raises(CompileError, match="MCM-A004"):
        write_page_beside(tmp_path)
    assert not page_path(tmp_path).exists()
