#!/usr/bin/env python3
"""Turn ONNX's own node tests of the normalization operators into JSON cases.

    make_onnx_cases.py --onnx-repo PATH/TO/onnx/.git [--revision rel-1.22.0]
                       [--out onnx] [--only PREFIX ...]

Needs numpy, protoc and Python's protobuf package (on Debian: protobuf-compiler,
python3-protobuf).  The stored node tests were removed from ONNX's main branch in
August 2026, so a release branch up to 1.22 has to be named.
"""
import argparse
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile

import numpy as np

import case_io

NODE_TESTS = "onnx/backend/test/data/node"
WANTED = re.compile(r"test_(layer_normalization|rms_normalization|batchnorm|"
                    r"group_normalization|instancenorm)_\w+")

# Attributes that a model may leave out, with the operator's default.
DEFAULTS = {
    "LayerNormalization": {"axis": -1, "epsilon": 1e-5, "stash_type": 1},
    "RMSNormalization": {"axis": -1, "epsilon": 1e-5, "stash_type": 1},
    "BatchNormalization": {"epsilon": 1e-5, "momentum": 0.9, "training_mode": 0},
    "GroupNormalization": {"epsilon": 1e-5, "stash_type": 1},
    "InstanceNormalization": {"epsilon": 1e-5},
}


def git(repo, *arguments):
    return subprocess.run(["git", "--git-dir=" + repo, *arguments],
                          check=True, stdout=subprocess.PIPE).stdout


def load_messages(repo, revision, folder):
    """Compile onnx.proto and import the module made from it."""
    with open(os.path.join(folder, "onnx.proto"), "wb") as out:
        out.write(git(repo, "show", revision + ":onnx/onnx.proto"))
    subprocess.run(["protoc", "-I", folder, "--python_out", folder,
                    os.path.join(folder, "onnx.proto")], check=True)
    sys.path.insert(0, folder)
    import onnx_pb2
    return onnx_pb2


def tensor_to_array(messages, data):
    tensor = messages.TensorProto()
    tensor.ParseFromString(data)
    if tensor.data_type != messages.TensorProto.FLOAT:
        raise ValueError("only float tensors are expected here")
    if tensor.raw_data:
        values = np.frombuffer(tensor.raw_data, dtype="<f4")
    else:
        values = np.array(tensor.float_data, dtype=np.float32)
    return values.reshape(tuple(tensor.dims))


def attribute_value(messages, attribute):
    if attribute.type == messages.AttributeProto.FLOAT:
        return float(np.float32(attribute.f))
    if attribute.type == messages.AttributeProto.INT:
        return int(attribute.i)
    raise ValueError("unexpected attribute type of " + attribute.name)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--onnx-repo", required=True, help="git directory of ONNX")
    parser.add_argument("--revision", default="rel-1.22.0")
    parser.add_argument("--out", default=os.path.join(here, "onnx"))
    parser.add_argument("--only", nargs="+", default=[""], metavar="PREFIX")
    options = parser.parse_args()

    commit = git(options.onnx_repo, "rev-parse", options.revision).decode().strip()
    names = git(options.onnx_repo, "ls-tree", "--name-only", commit,
                NODE_TESTS + "/").decode().split()
    names = [os.path.basename(name) for name in names]
    names = [n for n in names if WANTED.fullmatch(n) and "_expanded" not in n
             and n[len("test_"):].startswith(tuple(options.only))]
    archive = git(options.onnx_repo, "archive", commit,
                  *[NODE_TESTS + "/" + name for name in names])
    files = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            if member.isfile():
                files[member.name] = tar.extractfile(member).read()

    os.makedirs(options.out, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        messages = load_messages(options.onnx_repo, commit, folder)
        for name in names:
            model = messages.ModelProto()
            model.ParseFromString(files["%s/%s/model.onnx" % (NODE_TESTS, name)])
            (node,) = model.graph.node
            explicit = {a.name: attribute_value(messages, a) for a in node.attribute}
            attributes = {**DEFAULTS[node.op_type], **explicit}
            attributes["opset"] = max(o.version for o in model.opset_import)
            attributes["explicit"] = sorted(explicit)

            def load(kind, tensor_names):
                return {tensor_name: tensor_to_array(
                            messages, files["%s/%s/test_data_set_0/%s_%d.pb"
                                            % (NODE_TESTS, name, kind, i)])
                        for i, tensor_name in enumerate(tensor_names)}

            case_io.write_case(
                os.path.join(options.out, name[len("test_"):] + ".json"),
                "onnx %s %s" % (commit, name), node.op_type, attributes,
                load("input", node.input), load("output", node.output))
    print("%d cases written from ONNX %s" % (len(names), commit))


if __name__ == "__main__":
    main()
