extension AccountConfiguration {
    func validate() throws(AccountError) {
        guard (jid.local == nil) == (authentication == .anonymous) else {
            throw AccountError(
                .invalidConfiguration,
                jid.local == nil
                    ? "'\(jid)' has no user name; write the address as user@domain"
                    : "'\(jid)' has a user name, and so cannot log in anonymously; give the domain alone")
        }
        let policy = acknowledgements
        guard
            [connectedRequestTimeout, connectTimeout, acknowledgementTimeout, ownerSilence].allSatisfy({
                $0 >= .milliseconds(1)
            }),
            maximumOutbox > 0, recognizesDuplicatesFor > .zero, keepAlive.map({ $0 > .zero }) ?? true,
            inactiveKeepAlive > .zero,
            [policy.requestsAfter, policy.acknowledgesAfter, policy.responseDelay].allSatisfy({ $0 >= .zero }
            ),
            policy.requestsAfterStanzas >= 0, policy.acknowledgesAfterStanzas >= 0
        else {
            throw AccountError(
                .invalidConfiguration,
                "timeouts and limits of an account must be greater than 0, those of its acknowledgements not less than 0"
            )
        }
    }
}
