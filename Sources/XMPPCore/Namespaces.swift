/// Every XML namespace name this package uses, in one table.
///
/// Each is written once, here, and compared with its specification's own string by a test.
///
/// ```swift
/// let ping = Element("ping", namespace: Namespaces.ping)
/// ```
public enum Namespaces {
    // MARK: Streams and stanzas (RFC 6120)

    /// Stanzas between a client and a server (RFC 6120 section 4.8.2).
    public static let client = "jabber:client"
    /// Stanzas between servers (RFC 6120 section 4.8.2).
    package static let server = "jabber:server"
    /// Stanzas of an external component that connects to its server (XEP-0114).
    package static let component = "jabber:component:accept"
    /// The stream root, `<stream:features/>` and `<stream:error/>` (RFC 6120 section 4.8.1).
    package static let stream = "http://etherx.jabber.org/streams"
    /// Conditions inside `<stream:error/>` (RFC 6120 section 4.9.2).
    package static let streams = "urn:ietf:params:xml:ns:xmpp-streams"
    /// Conditions inside a stanza's `<error/>` (RFC 6120 section 8.3.2).
    package static let stanzas = "urn:ietf:params:xml:ns:xmpp-stanzas"
    /// STARTTLS (RFC 6120 section 5).
    package static let tls = "urn:ietf:params:xml:ns:xmpp-tls"
    /// SASL (RFC 6120 section 6).
    package static let sasl = "urn:ietf:params:xml:ns:xmpp-sasl"
    /// Resource binding (RFC 6120 section 7).
    package static let bind = "urn:ietf:params:xml:ns:xmpp-bind"
    /// Sessions, obsolete but still offered by servers (RFC 3921 section 3).
    package static let session = "urn:ietf:params:xml:ns:xmpp-session"
    /// `xml:lang` and its siblings (Namespaces in XML 1.0, section 3).
    package static let xml = "http://www.w3.org/XML/1998/namespace"
    /// Namespace declarations themselves; no element or attribute may use it (same section).
    package static let xmlns = "http://www.w3.org/2000/xmlns/"

    // MARK: Session

    /// Stream management (XEP-0198).
    package static let sm = "urn:xmpp:sm:3"
    /// Channel-binding types a server offers (XEP-0440).
    package static let saslChannelBinding = "urn:xmpp:sasl-cb:0"
    /// Extensible SASL profile (XEP-0388).
    package static let sasl2 = "urn:xmpp:sasl:2"
    /// Bind 2 (XEP-0386).
    package static let bind2 = "urn:xmpp:bind:0"
    /// Fast authentication with tokens (XEP-0484).
    package static let fast = "urn:xmpp:fast:0"
    /// Client state indication (XEP-0352).
    package static let csi = "urn:xmpp:csi:0"
    /// Limits of a server (XEP-0478).
    package static let streamLimits = "urn:xmpp:stream-limits:0"
    /// Push notifications (XEP-0357).
    package static let push = "urn:xmpp:push:0"
    /// Roster (RFC 6121 section 2).
    package static let roster = "jabber:iq:roster"
    /// The stream feature of rosters with versions (RFC 6121 section 2.6.1).
    package static let rosterVersions = "urn:xmpp:features:rosterver"
    /// Blocking (XEP-0191).
    package static let blocking = "urn:xmpp:blocking"

    // MARK: Discovery

    /// Ping (XEP-0199).
    public static let ping = "urn:xmpp:ping"
    /// Disco information (XEP-0030).
    public static let discoInfo = "http://jabber.org/protocol/disco#info"
    /// Disco items (XEP-0030).
    package static let discoItems = "http://jabber.org/protocol/disco#items"
    /// Entity capabilities (XEP-0115).
    package static let caps = "http://jabber.org/protocol/caps"
    /// Software version (XEP-0092).
    public static let version = "jabber:iq:version"
    /// Data forms (XEP-0004).
    package static let dataForms = "jabber:x:data"
    /// Result sets (XEP-0059).
    public static let rsm = "http://jabber.org/protocol/rsm"

    // MARK: Messages

    /// Delayed delivery (XEP-0203).
    package static let delay = "urn:xmpp:delay"
    /// Stanza and origin ids (XEP-0359).
    public static let sid = "urn:xmpp:sid:0"
    /// Delivery receipts (XEP-0184).
    package static let receipts = "urn:xmpp:receipts"
    /// Carbons (XEP-0280).
    package static let carbons = "urn:xmpp:carbons:2"
    /// Forwarded stanzas (XEP-0297).
    package static let forward = "urn:xmpp:forward:0"
    /// Message archive (XEP-0313).
    public static let mam = "urn:xmpp:mam:2"
    /// Chat states (XEP-0085).
    package static let chatStates = "http://jabber.org/protocol/chatstates"
    /// Processing hints (XEP-0334).
    package static let hints = "urn:xmpp:hints"
    /// Corrections of messages (XEP-0308).
    public static let correction = "urn:xmpp:message-correct:0"
    /// Retractions of messages (XEP-0424).
    public static let retraction = "urn:xmpp:message-retract:1"
    /// Reactions to messages (XEP-0444).
    public static let reactions = "urn:xmpp:reactions:0"
    /// Replies to messages (XEP-0461).
    public static let replies = "urn:xmpp:reply:0"
    /// Text for clients that do not know an extension (XEP-0428).
    package static let fallback = "urn:xmpp:fallback:0"
    /// Displayed markers (XEP-0333).
    public static let markers = "urn:xmpp:chat-markers:0"
    /// Messages whose text is hidden at first (XEP-0382).
    package static let spoilers = "urn:xmpp:spoiler:0"
    /// Links outside of the stream (XEP-0066 section 3).
    package static let outOfBand = "jabber:x:oob"
    /// Shared files (XEP-0447).
    package static let fileSharing = "urn:xmpp:sfs:0"
    /// Extended addresses of a stanza (XEP-0033).
    package static let addresses = "http://jabber.org/protocol/address"
    /// Marks of encrypted messages (XEP-0380).
    package static let encryptionMark = "urn:xmpp:eme:0"
    /// Names of occupants that outlive their nicknames (XEP-0421).
    package static let occupantID = "urn:xmpp:occupant-id:0"
    /// User nickname (XEP-0172).
    package static let nick = "http://jabber.org/protocol/nick"
    /// Electronic visiting cards (XEP-0054).
    package static let vcard = "vcard-temp"
    /// Rooms (XEP-0045).
    package static let muc = "http://jabber.org/protocol/muc"
    /// Rooms, as their occupants see them (XEP-0045).
    package static let mucUser = "http://jabber.org/protocol/muc#user"
    /// Affiliations and roles in a room (XEP-0045).
    package static let mucAdmin = "http://jabber.org/protocol/muc#admin"
    /// The configuration of a room (XEP-0045).
    package static let mucOwner = "http://jabber.org/protocol/muc#owner"
    /// Invitations into a room from user to user (XEP-0249).
    package static let conference = "jabber:x:conference"

    // MARK: PubSub and OMEMO

    /// PubSub requests (XEP-0060).
    package static let pubsub = "http://jabber.org/protocol/pubsub"
    /// PubSub notifications (XEP-0060).
    public static let pubsubEvent = "http://jabber.org/protocol/pubsub#event"
    /// PubSub requests of a node's owner (XEP-0060).
    package static let pubsubOwner = "http://jabber.org/protocol/pubsub#owner"
    /// The last displayed message of each conversation (XEP-0490).
    package static let displayed = "urn:xmpp:mds:displayed:0"
    /// PubSub's own error conditions (XEP-0060).
    package static let pubsubErrors = "http://jabber.org/protocol/pubsub#errors"
    /// OMEMO as most clients speak it (XEP-0384 before version 0.4).
    package static let omemoLegacy = "eu.siacs.conversations.axolotl"

    /// Returns whether stanzas can be in this namespace: `jabber:client`, `jabber:server` or `jabber:component:accept`.
    ///
    /// - Parameter namespace: A namespace name.
    /// - Returns: Whether it is one of the three (RFC 6120 section 4.8.2, XEP-0114).
    package static func isContent(_ namespace: ForeignText) -> Bool {
        namespace == client || namespace == server || namespace == component
    }
}
