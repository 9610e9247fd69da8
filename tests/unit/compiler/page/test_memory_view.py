from mcm_compiler.page.contents import Compiled
from mcm_compiler.page.timeline_view import KINDS, memory_section
from tests.oracles.unpacked import unpacked


def test_every_buffer_of_the_plan_is_drawn_where_it_lies(chain):
    data = memory_section(chain).view.data
    ptr = unpacked(data["ptr"]).tolist()
    names = ("address", "size", "first", "last", "kind", "names")
    address, size, first, last, kind, name = (list(unpacked(data[key])) for key in names)
    for i, chip in enumerate(chain.program.chips):
        assert data["chips"][i]["need"] == chip.high_water_bytes
        assert data["chips"][i]["kernels"] == len(chip.kernels)
        drawn = [
            (name[k], KINDS[kind[k]], address[k], size[k], first[k], last[k])
            for k in range(ptr[i], ptr[i + 1])
        ]
        assert drawn == [
            (b.name, b.kind, b.address, b.size_bytes, b.first, b.last) for b in chip.buffers
        ]
    kernels = [kernel.name for chip in chain.program.chips for kernel in chip.kernels]
    assert unpacked(data["kernels"]) == kernels


def test_the_table_says_what_each_chip_needs(chain):
    rows = memory_section(chain).tables[0].rows
    assert [row[0] for row in rows] == [str(chip.chip) for chip in chain.program.chips]
    assert all(row[2] == "64.0 MiB" for row in rows)


def test_without_a_folder_there_is_no_map(chain):
    assert memory_section(Compiled(chain.report)) is None
