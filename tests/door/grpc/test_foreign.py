"""Stubs of other languages, made from the file in the tree and used once against a node: Go and TypeScript."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from grpc_tools import protoc

from bench.node_process import NodeProcess
from tests.door.grpc.stubs import unique
from tools.grpc_api.__main__ import NAME, PROTOS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
FOREIGN = Path(__file__).parent / "foreign"
GO = ("google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.6", "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.5.1")
GO_MODULES = ("google.golang.org/protobuf@v1.36.6", "google.golang.org/grpc@v1.65.0")
NPM = ("@grpc/grpc-js@1.14.7", "@types/node@20", "ts-proto@2.18.0", "typescript@5.9")
TSC = ["--module", "commonjs", "--target", "es2022", "--esModuleInterop", "--skipLibCheck", "--outDir", "made"]
FRAMES = ["a", "b", "c", "acked true"]


def run(command: list[str], place: Path, what: str, seconds: int = 400, **environ: str) -> None:
    """Skips where something cannot be had."""
    try:
        done = subprocess.run(
            command, cwd=place, capture_output=True, text=True, timeout=seconds, env={**os.environ, **environ}
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{what} cannot be had in time")
    if done.returncode:
        pytest.skip(f"{what} cannot be had: {done.stderr[-300:]}")


def printed(command: list[str], place: Path) -> list[str]:
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split("\n")[:-1]


def test_stubs_for_go(tmp_path: Path, grpc_node: NodeProcess) -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not installed")
    tools = tmp_path / "bin"
    for one in GO:
        run([go, "install", one], tmp_path, one, GOBIN=str(tools))
    plugins = [f"--plugin={name}={tools / name}" for name in ("protoc-gen-go", "protoc-gen-go-grpc")]
    outs = [f"--{kind}_out={tmp_path}" for kind in ("go", "go-grpc")]
    assert protoc.main(["protoc", f"-I{PROTOS}", *plugins, *outs, NAME]) == 0
    shutil.copy(FOREIGN / "main.go", tmp_path)
    (tmp_path / "go.mod").write_text("module example\n\ngo 1.23\n")
    run([go, "get", *GO_MODULES], tmp_path, "grpc-go")
    run([go, "mod", "tidy"], tmp_path, "grpc-go")
    assert printed([go, "run", ".", grpc_node.grpc, unique("go")], tmp_path) == ["offsets [0 1 2]", *FRAMES]


def test_stubs_for_typescript(tmp_path: Path, grpc_node: NodeProcess) -> None:
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("node and npm are not installed")
    run([npm, "install", "--no-audit", "--no-fund", "--prefer-offline", *NPM], tmp_path, "ts-proto")
    tools = tmp_path / "node_modules/.bin"
    plugin = f"--plugin={tools / 'protoc-gen-ts_proto'}"
    options = "--ts_proto_opt=outputServices=grpc-js,esModuleInterop=true,env=node"
    assert protoc.main(["protoc", f"-I{PROTOS}", plugin, f"--ts_proto_out={tmp_path}", options, NAME]) == 0
    shutil.copy(FOREIGN / "main.ts", tmp_path)
    printed([str(tools / "tsc"), *TSC, "main.ts"], tmp_path)
    assert printed([node, "made/main.js", grpc_node.grpc, unique("ts")], tmp_path) == ["offsets 0 1 2", *FRAMES]
