from pathlib import Path

import pytest

from hwmodels.liberty import load_liberty

# Semicolons left out, a comment, load before slew, units of nA and 10 fF: what real files do.
LIBRARY = """
library (tiny) {
  /* a comment */
  time_unit : "1ns"
  voltage_unit : "1V";
  capacitive_load_unit (10, ff);
  leakage_power_unit : "1pW";
  nom_voltage : 2.0; nom_temperature : 25;
  lu_table_template (t) {
    variable_1 : total_output_net_capacitance; variable_2 : input_net_transition;
    index_1 ("0, 1"); index_2 ("0, 1, 2"); }
  cell (INV) {
    area : 3;
    leakage_power () { value : 500; }
    leakage_power () { value : 9; when : "A"; }
    pin (A) { direction : input; capacitance : 0.2; }
    pin (Y) {
      direction : output;
      function : "!A";
      timing () { related_pin : "A"; timing_sense : negative_unate;
        cell_rise (t) { values ("0, 1, 2", "10, 11, 12"); }
        rise_transition (t) { values ("0, 0, 0", "0, 0, 0"); } }
      internal_power () { related_pin : "A"; rise_power (t) { values ("1, 1, 1", "1, 1, 1"); } }
    }
  }
}
"""


@pytest.fixture
def library(tmp_path):
    path = tmp_path / "tiny.lib"
    path.write_text(LIBRARY)
    return load_liberty(path)


def test_units_become_ps_ff_fj_and_nw(library):
    cell = library.cells["INV"]
    assert cell.area == 3
    assert cell.leakage == pytest.approx(0.5)
    assert cell.pins["A"].capacitance == pytest.approx(2.0)
    (output,) = cell.outputs
    assert output.energies[0].energy["rise"].at(0, 0) == pytest.approx(10.0)  # 10 fF x 1 V^2
    assert library.corner == "2 V, 25 C"


def test_tables_are_slew_first_and_interpolated(library):
    delay = library.cells["INV"].outputs[0].arcs[0].delay["rise"]
    assert delay.at(500.0, 5.0) == pytest.approx(1000 * (0.5 + 5.0))  # half of 1 ns, half of 10 fF
    assert delay.at(1e9, 1e9) == pytest.approx(12_000)


def test_a_missing_file_says_what_to_install():
    with pytest.raises(ValueError, match="apt-get install qflow-tech-osu018"):
        load_liberty(Path("nowhere.lib"))


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "x.lib"
    path.write_text("hello")
    with pytest.raises(ValueError, match="not a Liberty file"):
        load_liberty(path)


def test_a_cell_without_area_is_refused(tmp_path):
    path = tmp_path / "x.lib"
    path.write_text(LIBRARY.replace("area : 3;", ""))
    with pytest.raises(ValueError, match="cell 'INV' has no area"):
        load_liberty(path)
