import pytest

from formats import Recipe, load_format, load_recipe
from hwmodels.device import Device, load_device
from hwmodels.piece import Piece
from hwmodels.quantisers import BF16_BYTES, operand_bytes, quantise_pieces
from hwmodels.workload import Linear

B200, H200 = load_device("b200"), load_device("h200")
LINEAR = Linear("l", 256, 128, 1, 1024)


@pytest.mark.parametrize(
    ("name", "size"),
    [("nvfp4", 4096 * 4096 * 4.5 / 8 + 4), ("mxfp4-rceil", 4096 * 4096 * 4.25 / 8)],
)
def test_B108_scales_count_as_memory(name, size):
    """The bytes that throughput moves are the format's storage, scales included."""
    fmt = load_format(name)
    moved = operand_bytes(B200, fmt, (4096, 4096), "fp4")
    assert moved == size == fmt.storage_bytes((4096, 4096))


def test_B108_a_wider_carrier_takes_its_width():
    fmt = load_format("mxint4")
    assert operand_bytes(B200, fmt, (4096, 4096), "fp8") == 4096 * 4096 * 8.25 / 8


def test_B108_padded_blocks_are_moved_too():
    assert operand_bytes(B200, load_format("nvfp4"), (3, 17), "fp4") == 3 * (16 + 2) + 4


def pieces(device: Device, recipe: Recipe) -> dict[str, Piece]:
    return {piece.name: piece for piece in quantise_pieces(device, LINEAR, recipe)}


def test_a_tensor_is_read_once_for_both_orientations():
    found = pieces(H200, load_recipe("ufp4"))
    assert set(found) == {"l quantise x", "l quantise w", "l quantise dy"}
    assert found["l quantise x"].bytes == 3 * BF16_BYTES * 1024 * 128


def test_a_scale_per_tensor_costs_another_pass():
    found = pieces(H200, load_recipe("nvfp4"))
    assert found["l amax x"].bytes == BF16_BYTES * 1024 * 128
    assert found["l amax x"].slowdown > 1


def test_slowdowns_of_emulation_are_of_devices_that_were_measured():
    ufp4 = load_recipe("ufp4")
    assert pieces(H200, ufp4)["l quantise dy"].slowdown > 1.5  # draws random bits
    assert pieces(B200, ufp4)["l quantise dy"].slowdown == 1.07  # published, for a rotation
