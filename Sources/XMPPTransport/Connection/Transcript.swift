package import XMPPCore

/// The log in which a transcript appears.
package protocol TranscriptLog: Sendable {
    var showsSentXML: Bool { get }
    var showsReceivedXML: Bool { get }
    /// Writes masked text that the account sent or received.
    func show(_ xml: String, sent: Bool, _ account: JID)
}

/// Shows the log what goes through a connection, masked.
///
/// It reads along even while nothing is shown, so that the switches work in the middle of a stream.
package final class Transcript {
    private let log: any TranscriptLog
    private let account: JID
    private var sent = XMLMask()
    private var received = XMLMask()

    package init(_ log: any TranscriptLog, _ account: JID) {
        self.log = log
        self.account = account
    }

    func sent(_ bytes: some Sequence<UInt8>) {
        sent.read(bytes, isShown: log.showsSentXML) { log.show($0, sent: true, account) }
    }

    func received(_ bytes: some Sequence<UInt8>) {
        received.read(bytes, isShown: log.showsReceivedXML) { log.show($0, sent: false, account) }
    }
}
