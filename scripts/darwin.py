#!/usr/bin/env python3
"""Type-checks the library for Apple's systems on Linux, compiles its C code and links what can be linked. docs/internals/darwin.md says what
that proves.

    scripts/darwin.py
"""
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys
import zipfile

import arrows
import swift_source

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OWN = os.path.join(ROOT, "scripts", "darwin")
LOCK = os.path.join(ROOT, "scripts", "peers", "darwin.txt")
WORK = os.path.join(ROOT, ".build", "darwin")
SDK = os.path.join(WORK, "sdk")
INCLUDE = os.path.join(SDK, "usr", "include")
SYSTEMS = {"macOS": "arm64-apple-macos15.0", "iOS": "arm64-apple-ios18.0"}
TOOLS = os.path.dirname(os.path.realpath(shutil.which("swift")))
SWIFT = os.path.join(os.path.dirname(TOOLS), "lib", "swift")
# Targets that run on the machine that builds: the macro.
HOST = ("HandlerExpander", "HandlerMacros")


def run(*words, **options):
    """What a command prints; exits with that when it fails."""
    done = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode:
        raise Failed(done.stdout)
    return done.stdout


class Failed(Exception):
    pass
