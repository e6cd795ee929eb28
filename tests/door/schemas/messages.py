"""Message types for Protobuf, made without a compiler: a file that imports another, with a nested message."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_TEXT, _NUMBER, _MESSAGE = 9, 5, 11


def _item() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="shop/item.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Item")
    message.field.add(name="sku", number=1, type=_TEXT, label=1)
    return file


def _order() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="shop/order.proto", package="shop", syntax="proto3")
    file.dependency.append("shop/item.proto")
    file.message_type.add(name="Before")
    message = file.message_type.add(name="Order")
    nested = message.nested_type.add(name="Line")
    nested.field.add(name="item", number=1, type=_MESSAGE, label=1, type_name=".shop.Item")
    nested.field.add(name="count", number=2, type=_NUMBER, label=1)
    message.field.add(name="id", number=1, type=_TEXT, label=1)
    message.field.add(name="lines", number=2, type=_MESSAGE, label=3, type_name=".shop.Order.Line")
    return file


_pool = descriptor_pool.Default()
for _file in (_item(), _order()):
    _pool.AddSerializedFile(_file.SerializeToString())

Order: Any = message_factory.GetMessageClass(_pool.FindMessageTypeByName("shop.Order"))
Line: Any = message_factory.GetMessageClass(_pool.FindMessageTypeByName("shop.Order.Line"))
