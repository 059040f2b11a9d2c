"""What `make release` makes of the templates and of the built functions."""

import base64
import collections
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse

from local import release
from local.deploy import (
    built_function,
    create,
    leave_out,
    template_as_written,
    with_batch_names,
    with_conditions,
    with_numbers,
)
from local.intrinsics import Resolver
from local.metrics import lower_alarms
from local.plain import NoManagedPolicies, plain_text
from local.queues import expanded
from local.stack import ACCOUNT, REGION, ROOT
from local.subscribers import create_queue


@pytest.mark.parametrize(("name", "functions"), release.TEMPLATES.items())
def test_the_released_template_differs_in_where_the_code_is(name, functions):
    text = release.packaged((ROOT / name).read_text(), functions, "sns-redrive/1.2.3")
    released, written = yaml_parse(text), template_as_written(name)
    bucket, prefix = released["Parameters"].pop("CodeBucket"), released["Parameters"].pop("CodePrefix")
    assert "Default" not in bucket
    assert prefix["Default"] == "sns-redrive/1.2.3"
    built = {key: r for key, r in written["Resources"].items() if r["Type"] == "AWS::Serverless::Function"}
    for (key, resource), function in zip(built.items(), functions, strict=True):
        assert resource.pop("Metadata")["BuildProperties"] == {"Binary": function}
        deployed = released["Resources"][key]["Properties"]
        assert deployed["CodeUri"] == {
            "Bucket": {"Ref": "CodeBucket"},
            "Key": {"Fn::Sub": f"${{CodePrefix}}/{function}-${{Architecture}}.zip"},
        }
        assert f"{function}-<Architecture>.zip" in prefix["Description"]
        deployed["CodeUri"] = resource["Properties"]["CodeUri"]
    assert released == written


def created(stack, name, template, values):
    """Creates a stack of a template without a transform. Returns its outputs."""
    template = with_conditions(with_batch_names(with_numbers(template, values)), values)
    lower_alarms(template, name, None)
    leave_out(template)
    return create(stack, "s3://releases/template", name, template, values)


@pytest.fixture(scope="module")
def released(stack):
    """The released packages in a bucket: of each function, which is itself."""
    s3 = stack.client("s3")
    s3.create_bucket(Bucket="releases", CreateBucketConfiguration={"LocationConstraint": REGION})
    packages = {}
    for function in release.FUNCTIONS:
        packages[function] = release.lambda_zip(built_function(function).read_bytes())
        s3.put_object(Bucket="releases", Key=f"sns-redrive/1.2.3/{function}-arm64.zip", Body=packages[function])
    return packages


def digest_of_code(stack, function):
    return stack.client("lambda").get_function_configuration(FunctionName=function)["CodeSha256"]


def digest(package):
    return base64.b64encode(hashlib.sha256(package).digest()).decode()


VALUES = {"CodeBucket": "releases", "TopicArns": "arn:aws:sns:eu-central-1:000000000000:payments"}


def test_the_released_template_deploys_the_released_package(stack, released, monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    text = release.packaged((ROOT / "template.yaml").read_text(), ["sns-redrive"], "sns-redrive/1.2.3")
    template = transform(yaml_parse(text), dict(VALUES), NoManagedPolicies())
    outputs = created(stack, "released", template, VALUES)
    assert digest_of_code(stack, outputs["FunctionName"]) == digest(released["sns-redrive"])


# --- without a transform, for StackSets of an organisation


def plain(name):
    """A template without a transform, as a release has it."""
    text = (ROOT / name).read_text()
    if functions := release.TEMPLATES.get(name):
        text = release.packaged(text, functions, "sns-redrive/1.2.3")
    return yaml_parse(plain_text(name, text))


@pytest.mark.parametrize("name", [*release.TEMPLATES, release.QUEUES])
def test_plain_templates_have_no_transform_and_no_resource_of_one(name):
    template = plain(name)
    assert "Transform" not in template
    assert not [r["Type"] for r in template["Resources"].values() if r["Type"].startswith("AWS::Serverless::")]
    assert "Fn::ForEach" not in json.dumps(template)


@pytest.mark.parametrize("name", release.TEMPLATES)
def test_plain_templates_are_otherwise_as_written(name):
    written = yaml_parse(release.packaged((ROOT / name).read_text(), release.TEMPLATES[name], "sns-redrive/1.2.3"))
    template = plain(name)
    del written["Transform"]
    for section in written.keys() - {"Resources"}:
        assert template[section] == written[section], section
    assert template["Resources"].keys() == written["Resources"].keys()
    for logical, resource in written["Resources"].items():
        if not resource["Type"].startswith("AWS::Serverless::"):
            assert template["Resources"][logical] == resource, logical


def test_plain_templates_deploy_the_same_functions_queues_and_state_machine(stack, released):
    outputs = created(stack, "plain", plain("template.yaml"), VALUES)
    assert digest_of_code(stack, outputs["FunctionName"]) == digest(released["sns-redrive"])

    values = {"CodeBucket": "releases", "Stack": "plain", "ConsoleWidget": "on"}
    operations = created(stack, "plain-operations", plain("operations.yaml"), values)
    assert digest_of_code(stack, operations["ReplayFunctionName"]) == digest(released["sns-redrive-replay"])
    assert digest_of_code(stack, operations["ConsoleFunctionArn"]) == digest(released["sns-redrive-widget"])
    machine = stack.client("stepfunctions").describe_state_machine(stateMachineArn=operations["ReplayStateMachineArn"])
    assert operations["ReplayFunctionName"] in machine["definition"]

    arns = [create_queue(stack, f"plain-{name}", "none")[1] for name in ("bills", "mails", "refunds")]
    # One was taken off the list.
    values = {"Stack": "plain", "DeadLetterQueueArn1": arns[0], "DeadLetterQueueArn3": arns[2]}
    created(stack, "plain-queues", plain("queues.yaml"), values)
    found = stack.client("lambda").list_event_source_mappings(FunctionName=outputs["FunctionName"])
    sources = {mapping["EventSourceArn"] for mapping in found["EventSourceMappings"]}
    assert sources & set(arns) == {arns[0], arns[2]}


def test_plain_queues_are_those_of_the_list():
    """Each queue has the resources that Fn::ForEach makes of it, and both policies name all queues."""
    arns = [f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}" for name in ("bills", "mails")]
    given = {f"DeadLetterQueueArn{n}": arn for n, arn in enumerate(arns, 1)}

    def made(template, values):
        resolver = Resolver(template, values, names=collections.defaultdict(str), pseudo={"AWS::StackName": "more"})
        there = [r for r in template["Resources"].values() if "Condition" not in r or resolver.holds(r["Condition"])]
        return sorted(json.dumps(resolver.resolve({**r, "Condition": None}), sort_keys=True) for r in there)

    values = {"DeadLetterQueueArns": ",".join(arns)}
    assert made(plain("queues.yaml"), given) == made(expanded(values), values)


@pytest.mark.parametrize("name", [*release.TEMPLATES, release.QUEUES])
def test_cfn_lint_accepts_plain_templates(name, tmp_path):
    (tmp_path / name).write_text(yaml.safe_dump(plain(name), sort_keys=False))
    command = [Path(sys.executable).with_name("cfn-lint"), tmp_path / name]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout


def test_a_template_that_cannot_be_packaged_is_refused():
    with pytest.raises(SystemExit, match="CodeUri"):
        release.packaged(
            (ROOT / "template.yaml").read_text().replace("CodeUri: .", "CodeUri: ./src"), ["sns-redrive"], "p"
        )


def test_the_variant_for_the_application_repository_lacks_only_what_it_refuses():
    text = (ROOT / "template.yaml").read_text()
    variant, written = yaml_parse(release.for_repository(text, "x86_64")), template_as_written("template.yaml")
    lacks = {
        section: [name for name in written[section] if name not in variant[section]]
        for section in ["Parameters", "Rules", "Conditions", "Resources", "Outputs"]
    }
    assert lacks == {
        "Parameters": ["PageTopicArn"],
        "Rules": [],
        "Conditions": ["HasPageTopic"],
        "Resources": ["LettersInDangerAlarm"],
        "Outputs": ["PagingAlarmName"],
    }
    assert {written["Resources"][name]["Type"] for name in lacks["Resources"]} == {"AWS::CloudWatch::CompositeAlarm"}
    assert not any(name in json.dumps(variant) for names in lacks.values() for name in names)
    # Any other transform is refused, too: https://github.com/aws/serverless-application-model/issues/859
    assert variant["Transform"] == "AWS::Serverless-2016-10-31"
    assert variant["Parameters"]["Architecture"]["AllowedValues"] == ["x86_64"]
    taken = release.REPOSITORY_TYPES.read_text().splitlines()
    assert {resource["Type"] for resource in variant["Resources"].values()} <= set(taken)


def test_a_type_that_the_application_repository_does_not_list_is_refused():
    text = (ROOT / "template.yaml").read_text()
    text = text.replace("\nResources:\n", "\nResources:\n  Every:\n    Type: AWS::Scheduler::Schedule\n", 1)
    with pytest.raises(SystemExit, match="lacks AWS::Scheduler::Schedule: "):
        release.for_repository(text, "arm64")


def test_sam_packages_the_variant_for_the_application_repository(stack, tmp_path):
    (tmp_path / "sns-redrive-arm64.zip").write_bytes(release.lambda_zip(b"a function"))
    (tmp_path / release.REPOSITORY).write_text(release.for_repository((ROOT / "template.yaml").read_text(), "arm64"))
    for name in release.NAMED_BESIDE:
        shutil.copyfile(ROOT / name, tmp_path / name)
    bucket = {"Bucket": "applications", "CreateBucketConfiguration": {"LocationConstraint": REGION}}
    stack.client("s3").create_bucket(**bucket)
    command = [Path(sys.executable).with_name("sam"), "package", "--template-file", tmp_path / release.REPOSITORY]
    command += ["--s3-bucket", bucket["Bucket"], "--output-template-file", tmp_path / "packaged.yaml"]
    environment = {"AWS_ENDPOINT_URL": stack.endpoint, "AWS_DEFAULT_REGION": REGION, "SAM_CLI_TELEMETRY": "0"}
    environment |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    environment |= {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    ran = subprocess.run(command, check=False, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr

    packaged = yaml_parse((tmp_path / "packaged.yaml").read_text())
    about = packaged["Metadata"]["AWS::ServerlessRepo::Application"]
    [function] = [r for r in packaged["Resources"].values() if r["Type"] == "AWS::Serverless::Function"]
    uploaded = [function["Properties"]["CodeUri"], about["LicenseUrl"], about["ReadmeUrl"]]
    assert all(place.startswith("s3://applications/") for place in uploaded), uploaded
    assert about["SemanticVersion"] == release.version_of_workspace()


def test_the_same_binary_gives_the_same_archives(tmp_path):
    bootstrap = built_function().read_bytes()[:100_000]
    package = release.lambda_zip(bootstrap)
    assert package == release.lambda_zip(bootstrap)
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        [entry] = archive.infolist()
        assert (entry.filename, entry.external_attr >> 16) == ("bootstrap", 0o100755)
        assert archive.read(entry) == bootstrap
    pages = {"share/man/man1/redrivectl.1": b"a page"}
    packed = release.tool_archive(bootstrap, "redrivectl-1.2.3", pages)
    assert packed == release.tool_archive(bootstrap, "redrivectl-1.2.3", pages)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(tmp_path, filter="data")
    tool = tmp_path / "redrivectl-1.2.3" / "bin" / "redrivectl"
    assert tool.read_bytes() == bootstrap
    assert tool.stat().st_mode & 0o777 == 0o755
    share = tmp_path / "redrivectl-1.2.3" / "share"
    assert (share / "man" / "man1" / "redrivectl.1").read_bytes() == b"a page"
    manual = (share / "doc" / "redrivectl" / "redrivectl.md").read_text()
    links = re.findall(r"\]\(([^)]*)\)", manual)
    assert "#replay" in links
    assert [link for link in links if not link.startswith(("#", "https://"))] == [], "leads nowhere there"


def test_the_tool_comes_with_its_manual_and_its_completions():
    pages = release.pages_of(built_function("redrivectl"))
    assert pages == release.pages_of(built_function("redrivectl"))
    manual = {name for name in pages if name.startswith("share/man/man1/")}
    assert manual >= {"share/man/man1/redrivectl.1", "share/man/man1/redrivectl-replay.1"}
    assert all(pages[name].startswith((b".ie", b".TH")) and b"redrivectl" in pages[name] for name in manual)
    scripts = {
        "share/bash-completion/completions/redrivectl": b"complete -F _redrivectl",
        "share/zsh/site-functions/_redrivectl": b"#compdef redrivectl",
        "share/fish/vendor_completions.d/redrivectl.fish": b"complete -c redrivectl",
    }
    assert set(pages) - manual == set(scripts)
    assert all(mark in pages[name] for name, mark in scripts.items())


def test_a_binary_for_another_processor_is_refused():
    here = this_processor()
    [other] = set(release.MACHINES) - {here}
    assert release.binary(built_function(), here)
    with pytest.raises(SystemExit, match=f"is not a Linux executable for {other}"):
        release.binary(built_function(), other)


@pytest.mark.parametrize("name", release.TEMPLATES)
def test_sam_builds_each_function_as_if_it_were_built_alone(name):
    """`sam build` names a binary and no package, so features of all default members would count."""
    binaries = packages_of_binaries()
    for resource in template_as_written(name)["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            assert resource["Metadata"]["BuildMethod"] == "rust-cargolambda"
            package = binaries[resource["Metadata"]["BuildProperties"]["Binary"]]
            alone = features("--package", package)
            by_sam = features(folder=ROOT / resource["Properties"]["CodeUri"])
            assert "aws-config" in {line.split()[0] for line in alone}
            assert alone - by_sam == set()


def packages_of_binaries():
    """The package that has each binary, by the binary's name."""
    command = ["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"]
    told = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    return {t["name"]: p["name"] for p in told["packages"] for t in p["targets"] if "bin" in t["kind"]}


def features(*arguments, folder=ROOT):
    """The crates that cargo builds in this folder, each with its features."""
    command = ["cargo", "tree", "--locked", "--edges", "normal,build", "--prefix", "none", "--format", "{p} {f}"]
    tree = subprocess.run([*command, *arguments], cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout
    # A crate that was listed before has a star.
    return {line.removesuffix(" (*)") for line in tree.splitlines()}


def this_processor():
    return {"aarch64": "arm64"}.get(platform.machine(), platform.machine())


def test_a_release_lists_its_files_and_what_they_were_made_of(tmp_path):
    arch = this_processor()
    built, out = tmp_path / "built", tmp_path / "dist"
    out.mkdir()
    for name in [*release.FUNCTIONS, release.TOOL]:
        (built / arch / name).mkdir(parents=True)
        (built / arch / name / "bootstrap").write_bytes(built_function().read_bytes()[:100_000])
    tool = built_function(release.TOOL)
    release.main(["--built", str(built), "--tool", str(tool), "--out", str(out), "--bucket", "releases", arch])

    files = {path.name for path in out.iterdir()} - {release.SUMS, release.PROVENANCE}
    version = release.version_of_workspace()
    assert files == {
        f"sns-redrive-{arch}.zip",
        f"sns-redrive-replay-{arch}.zip",
        f"sns-redrive-widget-{arch}.zip",
        f"redrivectl-{version}-linux-{arch}.tar.gz",
        "template.yaml",
        "operations.yaml",
        "queues.yaml",
        "plain-template.yaml",
        "plain-operations.yaml",
        "plain-queues.yaml",
        "serverlessrepo.yaml",
        "LICENSE",
        "README.md",
    }
    sums = dict(reversed(line.split("  ")) for line in (out / release.SUMS).read_text().splitlines())
    assert sums == {name: digest for name, digest in release.digests_of(out).items() if name in files}
    statement = json.loads((out / release.PROVENANCE).read_text())
    assert {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]} == sums
    for name in [*release.TEMPLATES, release.QUEUES]:
        assert "\nTransform:" in (out / name).read_text()
        assert "\nTransform:" not in (out / release.PLAIN.format(name)).read_text()
    [source] = [d for d in statement["predicate"]["buildDefinition"]["resolvedDependencies"] if d["name"] == "source"]
    assert len(source["digest"]["gitCommit"]) == 40
