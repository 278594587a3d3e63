"""What a user loses if this fails: work goes to a GPU that has fallen off the bus, or `status` calls it well."""
import pytest
from conftest import BIN

FAKE_NVML = next(iter(sorted((BIN.parent).rglob("libfake_nvml.so"))), None)


def test_a_gpu_that_is_lost_leaves_the_pool_and_comes_back(home):
    if FAKE_NVML is None:
        pytest.skip("fake_nvml is not built")
    says, config = home.root / "nvml", home.root / "rayo.toml"
    says.write_text("2")
    config.write_text('[devices]\nlist_each = "100ms"\n')
    home.env.update(RAYO_NVML_PATH=str(FAKE_NVML), RAYO_FAKE_NVML=f"@{says}")
    home.start_head("--config", str(config))
    node = lambda: home.status()["nodes"][0]
    assert [one["state"] for one in node()["devices"]] == ["ok", "ok"]
    assert node()["resources"]["gpu"] == {"total": 2, "free": 2}
    for word, state, reason in (("lost", "sick", "GPU is lost"), ("2", "ok", ""), ("1", "sick", "no more"), ("2", "ok", ""), ("hot", "hot", "93 C")):
        says.write_text(word)
        home.wait_for(lambda: node()["devices"][1]["state"] == state and reason in node()["devices"][1]["reason"], f"{word}: {state}")
        usable = 2 if state == "ok" else 1
        home.wait_for(lambda: node()["resources"]["gpu"] == {"total": usable, "free": usable}, f"{word}: {usable} of 2 in the pool")
    assert node()["devices"][1]["uuid"].endswith("1")
    assert "GPU 1" in home.rayo("why", node()["id"], code=0).out
    assert any("GPU 1" in event["text"] and "is hot" in event["text"] for event in home.status()["events"])
