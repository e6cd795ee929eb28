"""One Spark session for the command line, tests and users, and what it stands on: Java, SPARK_HOME, shipped code."""

from goqueue.pipeline.own_python import WrongPython
from goqueue.pipeline.session.java import Java, JavaMissing, JavaTooOld, find_java
from goqueue.pipeline.session.session import session
from goqueue.pipeline.session.shipping import py_files

__all__ = ["Java", "JavaMissing", "JavaTooOld", "WrongPython", "find_java", "py_files", "session"]
