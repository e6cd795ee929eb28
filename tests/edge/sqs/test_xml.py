"""The query protocol's answers."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.edge.sqs import xml

SPACE = f"{{{xml.NAMESPACE}}}"


def parsed(text: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def test_an_answer_without_content_has_only_its_metadata() -> None:
    root = parsed(xml.answer("DeleteMessage", None, "r-1"))
    assert [child.tag for child in root] == [f"{SPACE}ResponseMetadata"]
    assert root.findtext(f".//{SPACE}RequestId") == "r-1"


def test_lists_and_maps_are_flat() -> None:
    reply = {
        "Messages": [
            {
                "Body": "<b>",
                "Attributes": {"SenderId": "me"},
                "MessageAttributes": {"photo": {"BinaryValue": b"\xff", "DataType": "Binary"}},
            }
        ]
    }
    message = parsed(xml.answer("ReceiveMessage", reply, "r")).find(f"{SPACE}ReceiveMessageResult/{SPACE}Message")
    assert message is not None
    assert message.findtext(f"{SPACE}Body") == "<b>"
    assert message.findtext(f"{SPACE}Attribute/{SPACE}Name") == "SenderId"
    assert message.findtext(f"{SPACE}Attribute/{SPACE}Value") == "me"
    assert message.findtext(f"{SPACE}MessageAttribute/{SPACE}Value/{SPACE}BinaryValue") == "/w=="


def test_results_of_a_batch_have_the_operations_name() -> None:
    failed = {"Id": "b", "SenderFault": True, "Code": "X", "Message": "m"}
    root = parsed(xml.answer("DeleteMessageBatch", {"Successful": [{"Id": "a"}], "Failed": [failed]}, "r"))
    result = root.find(f"{SPACE}DeleteMessageBatchResult")
    assert result is not None
    assert [child.tag for child in result] == [f"{SPACE}DeleteMessageBatchResultEntry", f"{SPACE}BatchResultErrorEntry"]
    assert result.findtext(f"{SPACE}BatchResultErrorEntry/{SPACE}SenderFault") == "true"


@settings(deadline=None)
@given(st.text())
def test_any_text_makes_xml_that_can_be_read(text: str) -> None:
    body = parsed(xml.answer("ReceiveMessage", {"Messages": [{"Body": text}]}, "r")).findtext(f".//{SPACE}Body") or ""
    assert len(body) == len(text)
    parsed(xml.fault("Code", text, True, "r"))
