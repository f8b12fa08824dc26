import pytest

from formats import load_format
from hwmodels import synthesis
from hwmodels.circuit_table import load_tables, make_table, read_table, shipped_designs
from hwmodels.energy import design_of

LIBRARIES = {"osu018", "ihp130", "asap7", "gt2n-w13", "gt2n-w31"}


def test_every_shipped_table_has_every_shipped_design():
    tables = load_tables()
    assert tables.keys() == LIBRARIES
    for table in tables.values():
        assert table.script_sha256 == synthesis.SCRIPT_HASH
        assert len(table.liberty_sha256) == 64 and table.tool and table.corner
        for design in shipped_designs():
            assert len(table.find(design)) == 3


def test_osu018_regenerates_within_five_percent(osu018):
    """The three grids under E4M3 scales: 9 of the table's parts, to stay quick."""
    shipped = load_tables()["osu018"]
    designs = [d for d in shipped_designs() if d.scale.name == "e4m3" and len(d.books) == 1]
    fresh = make_table(osu018, "osu018", designs)
    assert fresh.liberty_sha256 == shipped.liberty_sha256
    for design in designs:
        for new, old in zip(fresh.find(design), shipped.find(design), strict=True):
            assert (new.part, new.rtl) == (old.part, old.rtl)
            assert new.area_um2 == pytest.approx(old.area_um2, rel=0.05)
            assert new.delay_ps == pytest.approx(old.delay_ps, rel=0.05)
            assert new.energy_fj.keys() == old.energy_fj.keys()
            for name, energy in new.energy_fj.items():
                assert energy == pytest.approx(old.energy_fj[name], rel=0.05)


def test_a_grid_is_found_by_its_circuit_not_its_name(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: mine\nsummary: E2M1 by another name\n"
        "element: {values: [0, 0.5, 1, 1.5, 2, 3, 4, 6]}\nblock: 16\n"
        "scale: {format: e4m3}\nsource: none\n"
    )
    table = load_tables()["osu018"]
    found = table.find(design_of(load_format(path)))
    assert found == table.find(design_of(load_format("nvfp4")))


@pytest.mark.parametrize("library", sorted(LIBRARIES))
def test_the_order_of_the_grids_holds_in_every_library(library):
    """E1M2 is the smallest; a unit for E2M1 and E1M2 is smaller than the two side by side."""
    table = load_tables()[library]
    area = {
        row.unit: row.area_um2 for row in table.rows if (row.part, row.scale) == ("dot", "e4m3")
    }
    assert area["e1m2"] < area["e2m1"] < area["e2m1+e1m2"] < area["e2m1"] + area["e1m2"]


@pytest.mark.parametrize("library", sorted(LIBRARIES))
def test_training_codes_cost_less_on_uniform_grids_but_hardly_on_e2m1(library):
    saved = {
        (row.element, row.scale): 1 - row.energy_fj["training"] / row.energy_fj["uniform"]
        for row in load_tables()[library].rows
        if row.part == "dot" and row.unit == row.element
    }
    assert len(saved) == 9
    for scale in ("e4m3", "fp32"):
        assert abs(saved["e2m1", scale]) < 0.03
        assert 0.02 < saved["e1m2", scale] < saved["e1m2", "e8m0"]
        assert 0.02 < saved["int4", scale] < saved["int4", "e8m0"]


def test_a_damaged_table_says_how_to_make_it_again(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("{}")
    with pytest.raises(ValueError, match="python -m hwmodels.regenerate"):
        read_table(path)
