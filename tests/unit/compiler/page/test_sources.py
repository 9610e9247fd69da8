from mcm_compiler.page.contents import Compiled


def test_roles_are_those_of_all_pipelines(pair):
    assert pair.replicas == 2
    assert [role[1] for role in pair.roles] == [0, 0, 1, 1]
    assert {chip - runs for chip, pipeline, runs in pair.roles if pipeline} == {pair.chips_each}


def test_one_pipeline_runs_its_own_models(chain):
    assert chain.replicas == 1
    assert chain.chips_each == 0
    assert all(chip == runs for chip, _, runs in chain.roles)


def test_a_report_by_itself_knows_no_files(chain):
    alone = Compiled(chain.report)
    assert (alone.program, alone.certificate, alone.target) == (None, None, None)
    assert alone.roles == chain.roles


def test_reports_of_the_first_release_have_no_replication(chain):
    old = {key: value for key, value in chain.report.items() if key != "replication"}
    assert Compiled(old).replicas == 1
    assert Compiled(old).roles == chain.roles
