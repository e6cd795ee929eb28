"""Protobuf files that every schema may import without registering them, as in Confluent's registry.

Those of `google/protobuf` come with Protobuf's package. Of the others the messages are here, without options, as only
their fields matter for data.
"""

from __future__ import annotations

from typing import Final

_MONTHS: Final = "JANUARY FEBRUARY MARCH APRIL MAY JUNE JULY AUGUST SEPTEMBER OCTOBER NOVEMBER DECEMBER"
_DAYS: Final = "MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY"
_PERIODS: Final = "DAY WEEK FORTNIGHT MONTH QUARTER HALF YEAR"


def _enum(name: str, zero: str, others: str) -> str:
    values = enumerate([zero, *others.split()])
    return f"enum {name} {{ {' '.join(f'{value} = {number};' for number, value in values)} }}"


_GOOGLE_TYPES: Final = {
    "calendar_period": _enum("CalendarPeriod", "CALENDAR_PERIOD_UNSPECIFIED", _PERIODS),
    "color": """import "google/protobuf/wrappers.proto";
        message Color { float red = 1; float green = 2; float blue = 3; google.protobuf.FloatValue alpha = 4; }""",
    "date": "message Date { int32 year = 1; int32 month = 2; int32 day = 3; }",
    "datetime": """import "google/protobuf/duration.proto";
        message DateTime {
          int32 year = 1; int32 month = 2; int32 day = 3; int32 hours = 4; int32 minutes = 5; int32 seconds = 6;
          int32 nanos = 7; oneof time_offset { google.protobuf.Duration utc_offset = 8; TimeZone time_zone = 9; }
        }
        message TimeZone { string id = 1; string version = 2; }""",
    "dayofweek": _enum("DayOfWeek", "DAY_OF_WEEK_UNSPECIFIED", _DAYS),
    "decimal": "message Decimal { string value = 1; }",
    "expr": "message Expr { string expression = 1; string title = 2; string description = 3; string location = 4; }",
    "fraction": "message Fraction { int64 numerator = 1; int64 denominator = 2; }",
    "interval": """import "google/protobuf/timestamp.proto";
        message Interval { google.protobuf.Timestamp start_time = 1; google.protobuf.Timestamp end_time = 2; }""",
    "latlng": "message LatLng { double latitude = 1; double longitude = 2; }",
    "localized_text": "message LocalizedText { string text = 1; string language_code = 2; }",
    "money": "message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }",
    "month": _enum("Month", "MONTH_UNSPECIFIED", _MONTHS),
    "phone_number": """message PhoneNumber {
          message ShortCode { string region_code = 1; string number = 2; }
          oneof kind { string e164_number = 1; ShortCode short_code = 2; }
          string extension = 3;
        }""",
    "postal_address": """message PostalAddress {
          int32 revision = 1; string region_code = 2; string language_code = 3; string postal_code = 4;
          string sorting_code = 5; string administrative_area = 6; string locality = 7; string sublocality = 8;
          repeated string address_lines = 9; repeated string recipients = 10; string organization = 11;
        }""",
    "quaternion": "message Quaternion { double x = 1; double y = 2; double z = 3; double w = 4; }",
    "timeofday": "message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }",
}
_CONFLUENT: Final = {
    "confluent/meta.proto": """package confluent; import "google/protobuf/descriptor.proto";
        message Meta {
          string doc = 1; map<string, string> params = 2; repeated string tags = 3; repeated Rule rules = 4;
        }
        message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }""",
    "confluent/type/decimal.proto": """package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }""",
    "confluent/type/variant.proto": "package confluent.type; message Variant { bytes metadata = 1; bytes value = 2; }",
}
KNOWN_FILES: Final[dict[str, str]] = {
    **{f"google/type/{name}.proto": f"package google.type; {text}" for name, text in _GOOGLE_TYPES.items()},
    **_CONFLUENT,
}
