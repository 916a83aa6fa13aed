"""A YAML file as a frozen topology, and the plan of what it will do. Needs the extra ``kafka``."""

from __future__ import annotations

from ldp_kafka.topology.admission import Admission, admission, admit
from ldp_kafka.topology.budget_file import EdgeFile, load_edge
from ldp_kafka.topology.loader import load, loads, place_in
from ldp_kafka.topology.model import Edge, Input, KafkaSide, Output, Privacy, Runtime, Topology
from ldp_kafka.topology.paths import format_path, parse_path
from ldp_kafka.topology.planner import Plan, plan
from ldp_kafka.topology.rights import Access, Acl, Right, access, acls, commands, read_principals
from ldp_kafka.topology.roles import Topic
from ldp_kafka.topology.schema import schema
from ldp_kafka.topology.unset import require, unset

__all__ = [
    "Access",
    "Acl",
    "Admission",
    "Edge",
    "EdgeFile",
    "Input",
    "KafkaSide",
    "Output",
    "Plan",
    "Privacy",
    "Right",
    "Runtime",
    "Topic",
    "Topology",
    "access",
    "acls",
    "admission",
    "admit",
    "commands",
    "format_path",
    "load",
    "load_edge",
    "loads",
    "parse_path",
    "place_in",
    "plan",
    "read_principals",
    "require",
    "schema",
    "unset",
]
