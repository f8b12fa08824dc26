from hwmodels.tiling import tilings


def test_flops_paid_for_are_those_of_whole_waves():
    whole = [tiling for tiling in tilings((4096, 4096, 512), 132) if tiling.splits == 1]
    least = min(tiling.flops for tiling in whole)
    assert least == 4 * 132 * 2.0 * 128 * 256 * 512  # 512 tiles are 3.9 waves


def test_k_is_cut_only_while_units_are_idle_and_parts_are_long():
    assert {tiling.splits for tiling in tilings((4096, 4096, 4096), 132)} == {1}
    assert max(tiling.splits for tiling in tilings((128, 128, 256), 132)) == 2
    assert max(tiling.splits for tiling in tilings((128, 128, 65536), 132)) == 132


def test_parts_are_written_and_read_in_fp32():
    for tiling in tilings((256, 256, 8192), 132):
        expected = 0 if tiling.splits == 1 else 2 * 4 * tiling.splits * 256 * 256
        assert tiling.partial_bytes == expected
        assert tiling.result_bytes == 2 * 256 * 256
