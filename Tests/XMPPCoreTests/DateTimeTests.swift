import TestThreads
import Testing
import XMPPCore

@Suite(.ownThread) struct DateTimeTests {
    @Test(
        "X12 a time is written and read in UTC with milliseconds",
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"), (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"), (-2_208_988_800_000, "1900-01-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] as [(Int64, String)])
    func roundTrip(milliseconds: Int64, text: String) {
        #expect(Timestamp(milliseconds: milliseconds).description == text)
        #expect(Timestamp(text)?.milliseconds == milliseconds)
    }

    @Test(
        "X12 fractions of any length and zones are read",
        arguments: [
            ("1970-01-01T00:00:00Z", 0), ("1970-01-01T00:00:00.5Z", 500),
            ("1970-01-01T00:00:00.123456Z", 123),
            ("1970-01-01T01:00:00+01:00", 0), ("1969-12-31T18:30:00-05:30", 0),
        ] as [(String, Int64)])
    func variants(text: String, milliseconds: Int64) {
        #expect(Timestamp(text)?.milliseconds == milliseconds)
    }

    @Test(
        "X12 what is no time is no time",
        arguments: [
            "", "now", "1970-01-01", "1970-01-01T00:00:00", "1970-13-01T00:00:00Z", "1970-01-01T00:00:00.Z",
            "1970-01-01T25:00:00Z", "1970-01-01T00:61:00Z", "1970-01-01T00:00:00Zx", "19700101T00:00:00",
            "٠١٢٣-01-01T00:00:00Z", "1970-01-01T00:00:00+1:00",
        ])
    func refused(text: String) { #expect(Timestamp(text) == nil) }
}
