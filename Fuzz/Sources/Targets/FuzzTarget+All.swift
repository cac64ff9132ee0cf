extension FuzzTarget {
    /// All targets, in the order of docs/internals/fuzzing.md.
    static let all: [FuzzTarget] = [
        .parser, .stanzas, .jid, .dates, .punycode, .forms, .disco, .mask, .scram, .token, .features, .sasl2,
        .inbound, .pubsub, .upload, .omemo, .omemoMessages, .arguments, .files, .ownerSocket, .component,
        .dns,
        .certificate, .rows,
    ]
}
