#!/usr/bin/env python3
"""Writes a list of what pip installs, with all that it depends on and the digest of each file.

    scripts/peers/lock.py test slixmpp==1.17.0 slixmpp-omemo==2.2.0
    scripts/peers/lock.py bench huey==3.5.4 dbos==3.4.0 slixmpp==1.17.0
    scripts/peers/lock.py darwin ziglang==0.17.1

Run it with the Python of Debian 12. It asks the registry that this machine's pip asks. Look at what has changed before you commit it.
"""

import collections, pathlib, re, subprocess, sys, tempfile, venv

PYTHONS = ["3.11", "3.13"]
MACHINES = ["x86_64", "aarch64"]
# The C libraries of Debian 12 take what was built for any of these.
LIBRARIES = ["manylinux_2_%d" % minor for minor in range(36, 4, -1)] + ["manylinux2014", "manylinux2010", "manylinux1"]


def run(*words):
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE).stdout


def main(purpose, *packages):
    with tempfile.TemporaryDirectory() as folder:
        venv.create(f"{folder}/venv", with_pip=True)
        pip, files = f"{folder}/venv/bin/pip", pathlib.Path(folder, "files")
        run(pip, "download", "--quiet", "--only-binary=:all:", "--dest", str(files), *packages)
        versions = pathlib.Path(folder, "versions.txt")
        versions.write_text("\n".join(sorted({pin(file) for file in files.iterdir()})))
        for python in PYTHONS:
            for machine in MACHINES:
                platforms = [f"--platform={library}_{machine}" for library in LIBRARIES]
                run(pip, "download", "--quiet", "--only-binary=:all:", "--dest", str(files), "--python-version", python,
                    *platforms, "--constraint", str(versions), *packages)
        digests = collections.defaultdict(set)
        for file in files.iterdir():
            digests[pin(file)].add(re.search(r"--hash=(\S+)", run(pip, "hash", str(file))).group(1))
    use = "fetches for 'scripts/darwin.py'" if purpose == "darwin" else f"installs for 'scripts/setup.sh {purpose}'"
    lines = [
        f"# What pip {use}, with all that it depends on, for Python 3.11 and 3.13 on x86-64 and arm64.",
        f"# Written by: scripts/peers/lock.py {purpose} {' '.join(packages)}",
    ]
    for name in sorted(digests):
        lines.append(name + "".join(f" \\\n    --hash={digest}" for digest in sorted(digests[name])))
    pathlib.Path(__file__).with_name(f"{purpose}.txt").write_text("\n".join(lines) + "\n")


def pin(file):
    name, version = re.match(r"(.+?)-(\d[^-]*)-", file.name).groups()
    return f"{name.replace('_', '-').lower()}=={version}"


main(*sys.argv[1:])
