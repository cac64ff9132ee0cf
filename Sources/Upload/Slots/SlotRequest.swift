import XMPPCore

/// Requests to an upload service, and the meaning of its refusals: rules without account, store or clock.
enum SlotRequest {
    /// `<request/>` (XEP-0363 section 4).
    static func element(name: String, size: Int64, type: String?) -> Element {
        Element(
            "request", namespace: UploadWire.namespace,
            attributes: [
                "filename": name, "size": "\(size)", UploadWire.contentType: type,
            ])
    }

    /// Returns the error of a refusal (XEP-0363 section 6).
    ///
    /// - Parameters:
    ///   - error: The error of the answer.
    ///   - iq: The answer; a service may put its own conditions beside others.
    ///   - size: The size that was asked for.
    /// - Returns: Nil when asking again later may help.
    static func failure(_ error: StanzaError, in iq: IQ, size: Int64) -> UploadError? {
        let element = iq.element.child("error", iq.element.namespace)
        if let tooLarge = element?.child(UploadWire.tooLarge, UploadWire.namespace) {
            let maximum = tooLarge.child(UploadWire.maximumSize, UploadWire.namespace)
            return .tooLarge(size, maximum: maximum.flatMap { Self.size($0.text) })
        }
        if let retry = element?.child("retry", UploadWire.namespace) {
            return quota(error, until: retry["stamp"].flatMap { Timestamp($0) })
        }
        if error.condition == .resourceConstraint { return quota(error, until: nil) }
        if error.kind == .wait { return nil }
        var failure = UploadError(
            .refused, "the upload service refused with \(said(error)); trying the same again will not help")
        failure.condition = error.condition.rawValue
        return failure
    }

    private static func quota(_ error: StanzaError, until time: Timestamp?) -> UploadError {
        let when = time.map { "after \($0)" } ?? "later"
        var failure = UploadError(
            .quotaExceeded, "the upload service has no room for more now (\(said(error))); try again \(when)")
        failure.retryAt = time
        failure.condition = error.condition.rawValue
        return failure
    }

    /// The condition and the start of the text.
    private static func said(_ error: StanzaError) -> String {
        let text = error.text.map { ", \"\($0.prefix(bytes: 200))\"" } ?? ""
        return error.condition.rawValue.prefix(bytes: 100).string + text
    }

    /// A number of bytes as services write it.
    static func size(_ text: ForeignText?) -> Int64? {
        guard let digits = text?.string, digits.utf8.count <= 18, let size = Int64(digits), size >= 0 else {
            return nil
        }
        return size
    }
}
