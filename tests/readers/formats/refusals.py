"""The end of the sentence about a record that the default policy refuses."""

TO_CONTINUE = "; to continue, set mode to PERMISSIVE or DROPMALFORMED, or set badRecordsPath"
