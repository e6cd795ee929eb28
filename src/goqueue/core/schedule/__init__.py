"""The schedule: messages that wait for their time. Records, repetitions and what a firing consists of."""
