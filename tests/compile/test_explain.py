"""`gemmgen explain` of a kernel of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest

import gemmgen
from gemmgen.cli import main
from gemmgen.judge.explanation_text import facts_of

SIMT = "simt_outer1_64x64x32_8x8_w32x64_v4_ta0_tb0_pad4_s2_async1_unroll4_slices2_minb1_g8"
EXPLAINED = {
    "naive": ("gemm_f32_rr_40x56x24_naive_16x16", "24 steps along K = 24"),
    "simt": (f"gemm_f32_rr_512x512x512_{SIMT}_split1_hoist2", "16 steps along K = 512"),
    "split": (f"gemm_f32_rr_512x512x2048_{SIMT}_split8_hoist2", "8 steps along each of 8 parts of K = 2048"),
    "edges": (f"gemm_f32_rr_96x64x512_{SIMT}_split1_hoist2", "75% are elements of C"),
    "staged": ("gemm_f32_rr_300x1x4000_skinny_s1_t1_w4_k1024_u8_v4_split8", "128 threads a block"),
    "direct": (
        "gemm_f32_rr_8x8192x8192_skinny_s8_t4_w4_k0_u2_v4_split2",
        "along each of 2 parts of K = 8192",
    ),
    "dots": ("gemm_s8s8s32_rc_1x4096x4096_skinny_s1_t4_w4_k0_u2_async1_v4_split1", "IDP"),
    "clusters": ("gemm_bf16_rc_640x512x512_wgmma_128x64x64_c2_k2x0_s4_f1_g8_p1", "2 blocks a cluster"),
    "batched": ("gemm_f32_rr_b64_16x16x16_batched_mb2_2x4_v4_pad4_s1_async1_tiles2_minb1", "4 products a block"),
}


FEW = ("naive", "simt", "staged", "dots", "clusters", "batched")


@pytest.mark.parametrize(
    "kind", [one if one in FEW else pytest.param(one, marks=pytest.mark.soak) for one in EXPLAINED]
)
def test_every_kind_of_kernel_is_explained(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    name, said = EXPLAINED[kind]
    assert main(["explain", name]) == 0
    assert said in capsys.readouterr().out


def test_a_report_that_compiles_shows_main_loops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gemmgen.generate(gemmgen.Problem(512, 512, 512), family="simt", out=tmp_path)
    assert main(["report", str(tmp_path), "--to", str(tmp_path / "page.html"), "--compile"]) == 0
    text = (tmp_path / "page.html").read_text()
    assert "main loop, as compiled" in text and ">FFMA</td>" in text and "FMA units busy at most" in text
    assert main(["report", str(tmp_path), "--to", str(tmp_path / "page.html")]) == 0
    assert "main loop, as compiled" not in (tmp_path / "page.html").read_text()


def test_an_edited_kernel_gets_a_time_by_its_machine_code(tmp_path: Path) -> None:
    source = gemmgen.generate(gemmgen.Problem(512, 512, 512), family="simt", out=tmp_path)
    path = tmp_path / f"{source.name}.cu"
    assert gemmgen.explain(path).edited is None
    path.write_text(source.text + "// a comment\n")
    commented = gemmgen.explain(path)
    assert commented.edited is not None and commented.edited.cycles == 1
    assert commented.edited.time_us == pytest.approx(commented.prediction.time_us)
    path.write_text(source.text.replace("#pragma unroll\n", "#pragma unroll 1\n"))
    rolled = gemmgen.explain(path)
    assert rolled.edited is not None and rolled.edited.cycles > 2, "each FMA with a loop of its own"
    assert rolled.edited.time_us > 1.5 * commented.edited.time_us
    assert "predicted, edited" in dict(facts_of(rolled)["time"])
