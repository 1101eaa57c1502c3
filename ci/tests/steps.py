#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the steps of a CI job as the service would, for ci/tests/check.sh.

    ci/tests/steps.py parse github|gitlab TEXT JOB CHECKOUT [NAME=VALUE ..] >steps.json
    ci/tests/steps.py run steps.json WORKSPACE CHECKOUT

`parse` reads a workflow or a pipeline and what it uses of the checkout (an action, an include), puts
the inputs in, and writes the commands; it needs PyYAML. NAME=VALUE are inputs that replace those of
the file. `run` needs nothing but Python: it runs the commands one after another and carries what a
step leaves in GITHUB_ENV, GITHUB_PATH and GITHUB_OUTPUT to the next. A command that installs
packages of the system (`sudo apt-get`) is not run; the packages have to be there.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

BASH = ["bash", "-e"]
BASH_NAMED = ["bash", "--noprofile", "--norc", "-eo", "pipefail"]
ACTION = re.compile(r"[\w.-]+/[\w.-]+/(ci/[\w/-]+)@\S+")


def text(value):
    return {True: "true", False: "false"}.get(value, str(value)) if value is not None else ""


def put_in(source, opening, closing, words):
    """Replaces `${{ inputs.x }}` and the like; an unknown one is an error."""

    def one(match):
        if match.group(1) not in words:
            sys.exit(f"steps: {match.group(0)} is not known")
        return words[match.group(1)]

    return re.sub(re.escape(opening) + r"\s*([\w.-]+)\s*" + re.escape(closing), one, text(source))


def of_action(folder, given, later):
    import yaml

    with open(os.path.join(folder, "action.yml"), encoding="utf-8") as file:
        action = yaml.safe_load(file)
    unknown = set(given) - set(action["inputs"])
    if unknown or action["runs"]["using"] != "composite":
        sys.exit(f"steps: the action has no input {unknown}, or is not composite")
    words = {f"inputs.{name}": text(given.get(name, of["default"])) for name, of in action["inputs"].items()}
    for step in action["runs"]["steps"]:
        environment = {name: put_in(value, "${{", "}}", words) for name, value in step.get("env", {}).items()}
        if step["shell"] != "bash":
            sys.exit(f"steps: shell {step['shell']}")
        yield {"shell": BASH_NAMED, "script": put_in(step["run"], "${{", "}}", words), "env": environment, "action": os.path.relpath(folder, later)}


def github(source, job, checkout, given):
    import yaml

    workflow = yaml.safe_load(source)
    for step in workflow["jobs"][job]["steps"]:
        uses = step.get("uses", "")
        if uses.startswith("actions/checkout@"):
            continue
        if uses:
            match = ACTION.fullmatch(uses)
            if not match:
                sys.exit(f"steps: {uses} is not known")
            yield from of_action(os.path.join(checkout, match.group(1)), {**step.get("with", {}), **given}, checkout)
        else:
            yield {"shell": BASH, "script": step["run"], "env": {}}


def gitlab(source, job, checkout, given):
    import yaml

    pipeline = yaml.safe_load(source)
    hidden = {}
    for include in pipeline.get("include", []):
        of = include.get("file") or include.get("local")
        with open(os.path.join(checkout, of.lstrip("/")), encoding="utf-8") as file:
            raw = file.read()
        header, body = list(re.split(r"^---$", raw, maxsplit=1, flags=re.M))
        inputs = yaml.safe_load(header)["spec"]["inputs"]
        values = {**include.get("inputs", {}), **given}
        numbers = [name for name, value in values.items() if not isinstance(value, str)]
        if numbers:
            sys.exit(f"steps: GitLab takes no number for an input that is a string: {numbers}")
        if set(values) - set(inputs):
            sys.exit(f"steps: the template has no input {set(values) - set(inputs)}")
        words = {}
        for name, rule in inputs.items():
            if name not in values and "default" not in (rule or {}):
                sys.exit(f"steps: the template needs the input {name}")
            value = text(values.get(name, (rule or {}).get("default")))
            if "options" in (rule or {}) and value not in rule["options"]:
                sys.exit(f"steps: {name} is {value}")
            words[f"inputs.{name}"] = value
        hidden.update(yaml.safe_load(put_in(body, "$[[", "]]", words)))
    of = {**hidden.get(pipeline[job].get("extends"), {}), **pipeline[job]}
    # before_script and script are one shell's, which ends at the first failure.
    lines = [*of.get("before_script", []), *of["script"]]
    yield {"shell": ["sh", "-e"], "script": "\n".join(lines), "env": {name: text(value) for name, value in of.get("variables", {}).items()}}


def installs_packages(line):
    match = re.fullmatch(r"(?:sudo )?apt-get update && (?:sudo )?apt-get install -y ([\w.+ -]+)", line.strip())
    return match and match.group(1).split()


def run(steps, workspace, checkout):
    environment = dict(os.environ)
    gitlabs = not any("action" in step for step in steps)
    for step in steps:
        lines = []
        for line in step["script"].split("\n"):
            packages = installs_packages(line)
            if packages:
                for package in packages:
                    subprocess.run(["dpkg-query", "-W", package], check=True, stdout=subprocess.DEVNULL)
            else:
                lines.append(line)
        with tempfile.TemporaryDirectory() as folder:
            for name in ("script", "env", "path", "output"):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write("\n".join(lines) if name == "script" else "")
            mine = {**environment, **step["env"]}
            if not gitlabs:
                mine.update(GITHUB_ACTIONS="true", GITHUB_ENV=f"{folder}/env", GITHUB_PATH=f"{folder}/path", GITHUB_OUTPUT=f"{folder}/output")
            if "action" in step:
                mine["GITHUB_ACTION_PATH"] = os.path.join(checkout, step["action"])
            print("== " + step["script"].split("\n")[0], flush=True)
            status = subprocess.run([*step["shell"], f"{folder}/script"], cwd=workspace, env=mine, check=False).returncode
            if status:
                return status
            for line in open(f"{folder}/env", encoding="utf-8"):
                name, _, value = line.rstrip("\n").partition("=")
                environment[name] = value
            for line in open(f"{folder}/path", encoding="utf-8"):
                environment["PATH"] = line.rstrip("\n") + ":" + environment["PATH"]
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "parse":
        of, file, name, place = sys.argv[2:6]
        overriding = dict(word.split("=", 1) for word in sys.argv[6:])
        with open(file, encoding="utf-8") as opened:
            steps = list({"github": github, "gitlab": gitlab}[of](opened.read(), name, place, overriding))
        json.dump(steps, sys.stdout)
    else:
        with open(sys.argv[2], encoding="utf-8") as opened:
            sys.exit(run(json.load(opened), *sys.argv[3:5]))
