/**
 * The proofs of the guarantees of docs/guarantees.md: for each, tests that run in the gate. A guarantee whose proof is
 * missing, renamed, skipped or failed fails the run: see `unproven.ts`.
 */

/** A test, or the tests that a pattern with `*` matches. */
export interface Proof {
  /** Path of the test file, without `.test.ts`. */
  readonly file: string
  /**
   * The full name of a test: the names of its groups and its own, joined by ` > `. `*` matches any text, for names that
   * contain values.
   */
  readonly test: string
  /** Set if the test can run on some machines only. Elsewhere it may be skipped. */
  readonly needs?: "root"
}

export interface Guarantee {
  /** The first words of the promise in docs/guarantees.md, which tell it from the others. */
  readonly promise: string
  readonly proofs: ReadonlyArray<Proof>
}

const tests = (file: string, ...names: ReadonlyArray<string>): ReadonlyArray<Proof> =>
  names.map((test) => ({ file, test }))

export const guarantees: ReadonlyArray<Guarantee> = [
  {
    promise: "A reviewer model decides only new steps",
    proofs: [
      ...tests(
        "test/domain/approvals/Reviewer/reviewerStanding",
        "reviewerStanding > the right to approve is earned by the last decision that the bound needs, and not before",
        "reviewerStanding > a disagreement never gives a right, and an agreement never takes one"
      ),
      ...tests(
        "test/domain/approvals/Reviewer/reviewerDecision",
        "reasonNotToAsk > *",
        "decisionOfAnswer > an answer decides only what was earned for its kind; an unsure one and a sampled step decide nothing"
      ),
      ...tests(
        "test/server/approvals/ReviewerDecisions",
        "ReviewerDecisions > in a shared statement, a reviewer that is stopped while its model answers decides nothing",
        "ReviewerDecisions > in a transaction, a reviewer that is stopped while its model answers decides nothing",
        "ReviewerDecisions > a release that becomes live while the model answers does not get its decision",
        "ReviewerDecisions > a step that is submitted twice at once is decided once",
        "ReviewerDecisions > the sample is the share of the rule"
      )
    ]
  },
  {
    promise: "The answer of a reviewer model about a waiting step",
    proofs: [
      ...tests(
        "test/server/approvals/Reviewers",
        "Reviewer models > have no word in any answer of the API before people have decided",
        "Reviewer models > get the arguments as data: in one message, without tools, and never as instructions",
        "Reviewer models > neither get nor leave secrets",
        "Reviewer models > are asked as often as their limits of a day allow, and from midnight on again",
        "Reviewer models > never delay a step: one that waits for the model is answered at once"
      ),
      ...tests(
        "test/server/approvals/Reviewers/replicas",
        "Reviewer models › two replicas > ask once about each step, whichever replica it was submitted to"
      )
    ]
  },
  {
    promise: "A rule allows no more steps",
    proofs: [
      ...tests(
        "test/domain/approvals/budgetUse",
        "budgetUse > no window of allowed steps exceeds a bound, whatever the times, the skew of clocks and the amounts are"
      ),
      ...tests(
        "test/server/approvals/BudgetCounters/twoReplicas",
        "BudgetCounters › two replicas > of 64 steps at once, as many are allowed as the count of the budget, and none later",
        "BudgetCounters › two replicas > replicas that take turns with one counter count the steps of each other",
        "BudgetCounters › two replicas > three budgets at once each keep their bound, by decimal sums",
        "BudgetCounters › two replicas > a step that is submitted 64 times at once is counted once"
      ),
      ...tests(
        "test/server/approvals/Budgets",
        "Budgets > a step fits all budgets of its rule or uses none of them, and a claim is made with it",
        "Budgets > beyond the budget a person is asked, and what a person or a grant allows uses none of it"
      )
    ]
  },
  {
    promise: "A session belongs to the key that created it",
    proofs: tests(
      "test/server/approvals/SessionFacts",
      "The owner of a session > another agent's key is told whose the session is, and changes nothing in it",
      "The owner of a session > a receiver resumes a step with the agent's key, a key made by it, or in a shared session",
      "The owner of a session > a key of the preset hook reads and follows its own sessions, and no others"
    )
  },
  {
    promise: "Only a key that could read the content itself",
    proofs: [
      ...tests(
        "test/server/telemetry/Telemetry",
        "Telemetry destinations > content is exported only by a key that could read it"
      ),
      ...tests(
        "test/server/redaction/RedactionSettings",
        "RedactionSettings > a key that cannot read the content changes the settings only so that they redact more"
      ),
      ...tests(
        "test/server/notifications/Email",
        "Email > admins are told by email when telemetry exports content, and when it goes to another host"
      )
    ]
  },
  {
    promise: "A name, reason, template, description or metadata with a credential",
    proofs: tests(
      "test/server/http/CredentialFree",
      "CredentialFree > a credential in a name, reason, template, description or metadata is refused with its place"
    )
  },
  {
    promise: "Single sign-on accepts a response",
    proofs: tests(
      "test/server/console/SingleSignOn",
      "SingleSignOn > a response with a wrong state, issuer or nonce, or of another browser, signs nobody in",
      "SingleSignOn > a code is accepted once, also with the cookie of its sign-in",
      "SingleSignOn > ID tokens of another nonce, audience or issuer, expired ones, and unsigned ones are refused",
      "SingleSignOn > people whose groups give no access are refused, and lose the access and sessions that they had",
      "SingleSignOn > an administrator lists people, ends their sessions, and blocks one at once and for good",
      "SingleSignOn > whoever is blocked or loses their groups loses the keys that they made, in the same change",
      "SingleSignOn > a logout at the provider ends the sessions of its session, or all of a person"
    )
  },
  {
    promise: "Requests go to public addresses only",
    proofs: [
      ...tests(
        "test/domain/network/PublicUrl",
        "a literal address in a URL > is refused in every other spelling that the URL parser understands",
        "a literal address in a URL > is refused inside an IPv6 literal in every embedding and spelling"
      ),
      ...tests(
        "test/domain/network/PublicAddress",
        "isPublic > agrees with the oracle at the borders of every block",
        "isPublic > agrees with the oracle on any IPv4 address",
        "isPublic > agrees with the oracle on any IPv6 address, mostly near a block"
      ),
      ...tests(
        "test/server/egress/Egress",
        "Egress › DNS lookup > each attempt looks its host up once per address family, also when a connection is kept alive",
        "Egress › DNS lookup > a host that moves to a refused address is not reached, with or without a kept-alive connection",
        "Egress › DNS lookup > a host with one refused address among * is refused",
        "Egress › refused address > a refused address is not connected to, however the URL spells it",
        "Egress › refused address > a refused address is not reached over a * redirect"
      ),
      ...tests(
        "test/faults/canary",
        "Egress › * attempts connect to no denied address and resolve each name once"
      )
    ]
  },
  {
    promise: "One organization's host names cannot make DNS lookups for others fail",
    proofs: tests(
      "test/server/egress/Egress/Resolver",
      "makeResolver > names of a hostile name server do not make lookups of other names fail",
      "makeResolver > an organization whose names are not answered waits by itself"
    )
  },
  {
    promise: "TLS certificates are verified by name",
    proofs: [
      ...tests(
        "test/server/egress/Egress",
        "Egress › environment > proxy variables of the environment are ignored"
      ),
      ...tests(
        "test/server/egress/Egress/Connections",
        "Connections › TLS > SNI, certificate check and Host header use the host name, while the connection goes to the checked address",
        "Connections › TLS > a certificate * is refused before a byte of the request is written",
        "Connections › TLS > TLS sessions are not resumed, on the same address or another",
        "Connections › keep-alive > a kept-alive connection is not shared by two destinations with the same URL",
        "Connections › keep-alive > a kept-alive connection is not shared by two names at one address"
      )
    ]
  },
  {
    promise: "A stolen database reveals no secret",
    proofs: [
      ...tests(
        "test/server/secrets/SecretBox",
        "* > a value moved to another organization, table, row or column does not unseal",
        "* > a value with any single bit flipped does not unseal"
      ),
      ...tests(
        "test/server/identity/ApiKeys",
        "* > a key is shown once, listed without its secret, and stored as a digest"
      ),
      ...tests(
        "test/e2e/leaks",
        "the service's secrets > appear in no log, row, response or request except where they belong, whatever fails"
      )
    ]
  },
  {
    promise: "The master key can be rotated",
    proofs: [
      ...tests(
        "test/server/secrets/MasterKeys",
        "MasterKeys > a rotation beside a running service reseals every secret, and afterwards the service needs only the new key",
        "*every bytea column of the schema is listed as sealed or as free of secrets"
      ),
      ...tests(
        "test/server/secrets/MasterKeyFile",
        "MasterKeyFile > no key is generated if the database contains secrets sealed with a lost key"
      )
    ]
  },
  {
    promise: "The service writes no secret to a log",
    proofs: tests(
      "test/e2e/leaks",
      "the leak hunter finds a secret in every encoding",
      "the service's secrets > appear in no log, row, response or request except where they belong, whatever fails"
    )
  },
  {
    promise: "Corrections, review notes",
    proofs: [
      ...tests(
        "test/domain/redaction/Redaction",
        "redact > redacts every secret of the corpus and changes nothing else",
        "redact > finds known values in base64 of binary data at each offset",
        "redact > finds API keys and known values that are split by line breaks or invisible characters"
      ),
      ...tests(
        "test/server/tasks/Datasets/redactExamples",
        "redactExamples > examples of a request are stored without protected values, and a warning names the fields",
        "redactExamples > an import stores examples without protected values and counts their lines"
      ),
      ...tests(
        "test/e2e/leaks",
        "the service's secrets > appear in no log, row, response or request except where they belong, whatever fails"
      )
    ]
  },
  {
    promise: "No request holds the event loop for long",
    proofs: [
      ...tests(
        "test/domain/json/StrictJson",
        "StrictJson.scan with limits > reads no further than the value beyond the limit"
      ),
      ...tests(
        "test/server/admission/LoopTurns",
        "LoopTurns > a key with many waiting slices delays another key by one of them"
      ),
      ...tests(
        "test/server/http/RequestBody",
        "* > a body of more than 100,000 values or 20,000 names is refused with its place"
      ),
      ...tests(
        "test/server/admission/FairReads",
        "FairReads > a fifth concurrent read waits, while writes and other organizations' reads do not"
      )
    ]
  },
  {
    promise: "A schema that a user supplies costs a bounded amount of work",
    proofs: tests(
      "test/domain/tasks/CompiledSchema",
      "CompiledSchema.check has a work limit > a check whose work doubles with each level of nesting is aborted",
      "CompiledSchema.check has a work limit > a check that matches long texts with long patterns is aborted",
      "compileSchema > a schema is rejected with its place: that leads elsewhere",
      "compileSchema > a schema is rejected with its place: with a back-reference"
    ).concat(
      tests(
        "test/domain/tasks/CompiledSchema/judgements",
        "CompiledSchema judges as JSON Schema 2020-12 does > every schema that is accepted gives the same result as an evaluator of the specification"
      )
    )
  },
  {
    promise: "A revoked key works for at most 5 seconds",
    proofs: [
      ...tests(
        "test/api/Authorization",
        "* > every operation rejects a missing, malformed, mistyped, unknown, revoked and expired key"
      ),
      ...tests(
        "test/server/approvals/SessionStream",
        "* > the streams of a revoked or expired key end at the next poll, and no others"
      ),
      ...tests(
        "test/api/Tenancy",
        "* > another organization's resource gets the same answer as a missing one, on every operation, by key and by session",
        "* > another organization's resources appear on no list, for any cursor"
      )
    ]
  },
  {
    promise: "A key creates no key that has more scopes",
    proofs: [
      ...tests(
        "test/server/identity/ApiKeys",
        "* > a key cannot grant a scope that it does not have",
        "* > a key that a temporary key creates expires with it, or earlier",
        "* > revoking a key revokes the keys that it created, or keeps them if asked, each with an audit entry"
      ),
      ...tests(
        "test/server/identity/ApiKeys/changes",
        "Changes of API keys > a key revokes only keys of which it has every scope and group, and itself"
      ),
      ...tests(
        "test/server/identity/ApiKeys/allowedNetworks",
        "* > a request from elsewhere gets 403, whatever X-Forwarded-For claims"
      ),
      ...tests(
        "test/server/approvals/Approvals",
        "* > a key cannot approve its own request through keys that it created"
      )
    ]
  },
  {
    promise: "A decision of a person has the comment that its rule asks for",
    proofs: [
      ...tests(
        "test/domain/approvals/ApprovalState",
        "* > a decision without the comment that the rule asks for changes nothing"
      ),
      ...tests(
        "test/server/approvals/Approvals/requiredComments",
        "* > each approval of a quorum needs its own comment",
        "* > the rule under which the approval was requested counts, not the one of today",
        "* > several approvals at once: those whose rule asks for a comment stay pending without one"
      )
    ]
  },
  {
    promise: "A counter-proposal allows at most one step, within an hour",
    proofs: [
      ...tests(
        "test/domain/approvals/StoredProposal",
        "* > a proposer does not answer for a quorum of two people",
        "* > a proposer does not answer for a quorum of a group that they are not in"
      ),
      ...tests(
        "test/server/approvals/Approvals/proposals",
        "* > one later step with exactly the proposed arguments is allowed, and shows where it came from",
        "* > of many concurrent steps with the arguments one is allowed, and repeats get the same answer",
        "* > rules that reject win, also over a step that was allowed, and rules that allow use no proposal",
        "* > a proposal of one person does not answer for a quorum, or for a group that they are not in",
        "* > a proposer whose key began the session or submits the step cannot thereby allow it",
        "* > a proposal allows a step within an hour, and none after it"
      ),
      ...tests(
        "test/server/approvals/Approvals/proposalsOfTwoReplicas",
        "* > of steps that use a proposal at once through both replicas, one is allowed, each time"
      )
    ]
  },
  {
    promise: "An approval is given by as many people as its rule asks for",
    proofs: [
      ...tests(
        "test/domain/approvals/ApprovalState",
        "* > no sequence of inputs reaches an illegal state, repeats an event, or lets two decisions win",
        "* > keys that made each other, directly or through others, count as one person",
        "* > a quorum of finance and legal needs a member of each, and only members can decide"
      ),
      ...tests(
        "test/server/approvals/Approvals/quorum",
        "* > of many concurrent approvals each counts once, and exactly one completes the quorum",
        "* > the database refuses an approval without its quorum",
        "* > keys that made each other count as one person, and nobody votes on an own request"
      ),
      ...tests(
        "test/server/approvals/Approvals/votesOfTwoReplicas",
        "* > a vote through another replica is kept by one that has cached the approval without it"
      ),
      ...tests(
        "test/server/identity/ApiKeys",
        "* > a key gives only groups that it has, unless it may replace the rules"
      )
    ]
  },
  {
    promise: "A decision is bound to the arguments. What people read",
    proofs: [
      ...tests(
        "test/domain/approvals/SummaryTemplate",
        "* > a value cannot pass for the words of the template",
        "* > every text either has a fault within it, or renders any arguments to one bounded, visible line"
      ),
      ...tests(
        "test/server/approvals/Summaries",
        "* > a summary is no part of the step: a repeated step keeps its first one, and its digest has none",
        "* > no event of the session has a summary"
      )
    ]
  },
  {
    promise: "A standing grant allows only steps of its session that its maker could approve alone",
    proofs: [
      ...tests(
        "test/domain/approvals/grantAllows",
        "grantAllows > allows no step that a rule decides, or might reject",
        "grantAllows > replaces one person of the group that is asked for, and never several",
        "grantAllows > allows what the granting key, or a key that made it, asks for only if the rule permits self-approval"
      ),
      ...tests(
        "test/server/approvals/Grants",
        "* > a rule that rejects wins, and a rule that allows uses no grant",
        "* > a rule that cannot be judged asks a person, whatever was granted",
        "* > a grant for the tool allows any arguments in its session, and in no other",
        "* > a revoked grant allows no further step, and what it has allowed stays allowed",
        "* > a grant of a key that was revoked allows nothing"
      ),
      ...tests(
        "test/server/approvals/Grants/twoReplicas",
        "* > of concurrent steps through both replicas, exactly as many are allowed as the grant counts",
        "* > of steps that race with the revocation, those allowed are those counted"
      ),
      ...tests("test/testing/timeTravel", "* > are needed again once a standing grant has expired")
    ]
  },
  {
    promise: "A message about an approval decides nothing",
    proofs: [
      ...tests(
        "test/server/approvals/Messages",
        "* > go both ways, end the agent's wait once each, and are in its stream in order",
        "* > are refused to other organizations and sessions, and by scope",
        "* > are refused once the approval is decided, has expired, or its session was closed",
        "* > are stored, streamed and answered without secrets",
        "* > are bounded for each side: in all, and in a minute",
        "* > a message is before the decision or refused, however they race, and numbers have no gaps"
      ),
      ...tests(
        "test/adapters/toolGate",
        "* > denies a call with the reviewer's question, and the same call under another ID waits on"
      )
    ]
  },
  {
    promise: "A ticket permits one execution of one claimed step",
    proofs: [
      ...tests(
        "test/ticket/verifyTicket",
        "verifyTicket > accepts the ticket of exactly these arguments, once",
        "verifyTicket > refuses each thing that differs, and says which",
        "verifyTicket > refuses a ticket whose header or content was changed in any character",
        "verifyTicket > accepts neither another algorithm nor another kind of token, however it is signed",
        "verifyTicket > binds any JSON arguments as the service does"
      ),
      ...tests(
        "test/server/approvals/Tickets",
        "Tickets > a tool executes the claimed step once, and nothing for an agent that goes around"
      )
    ]
  },
  {
    promise: "A claimed step is executed by one caller at a time",
    proofs: [
      ...tests(
        "test/domain/approvals/Execution",
        "Execution › transition > whatever happens, at most one attempt executes, and each further one follows an unknown one"
      ),
      ...tests(
        "test/server/approvals/Claims",
        "Claims > a lease that ends without an outcome is shown to people, and a late outcome is accepted",
        "Claims > another attempt follows an unknown one only if the rule says so, with the same idempotency key",
        "Claims > the key that claimed a step cannot resolve its execution, nor can a key that it made",
        "Claims > closing a session makes its claims unknown, and people can still resolve them"
      ),
      ...tests(
        "test/server/approvals/Claims/twoReplicas",
        "* > of 64 requests that submit and claim a new step at once, one gets it",
        "* > of 64 claims of a saved step at once, one gets it, and of as many outcomes one is recorded",
        "* > of everything that follows an unknown attempt at once, one happens"
      ),
      ...tests("test/faults/Claims", "* > after * kills between claim and outcome, *")
    ]
  },
  {
    promise: "An operation without a scope check does not compile",
    proofs: tests(
      "test/api/Authorization",
      "* > every operation requires a key and exactly one scope, or one of two",
      "* > every operation rejects a key without its scope before it reads the body"
    )
  },
  {
    promise: "Changes of keys, endpoints, destinations",
    proofs: [
      ...tests(
        "test/server/identity/Audit",
        "* > a rolled-back change leaves no entry, and recording outside a transaction is a defect",
        "* > what retention keeps of a log can still be verified"
      ),
      ...tests(
        "test/server/identity/auditWrites",
        "the audit log is append-only > only auditWrites inserts entries, only retention deletes them, and nothing updates them",
        "* > writers that wait for a head continue the chain that the commit before them left"
      ),
      ...tests(
        "test/server/identity/Audit/operations",
        "* > every operation that changes something leaves an entry or is listed with a reason"
      ),
      ...tests(
        "test/cli/audit",
        "countersign audit > verify accepts an export and finds a changed, removed, moved, inserted or cut entry",
        "countersign audit > verify finds entries that the database's owner changed, also if the owner rewrote the chain"
      )
    ]
  },
  {
    promise: "A console session ends after eight hours",
    proofs: [
      ...tests(
        "test/server/console/Console",
        "* > a session > a session ends with the revocation of its key, by signing out and by expiry",
        "* > an open stream > a stream ends when its session is signed out, here or on another replica, or its key is revoked"
      ),
      ...tests(
        "test/server/console/ConsoleSessions/signIns",
        "* > people list and end the sessions of their key, and admins those of the organization",
        "* > a session ends an hour after its user was last active, a page that refreshes itself does not count",
        "* > a session lasts eight hours"
      )
    ]
  },
  {
    promise: "A feedback token in a browser",
    proofs: [
      ...tests(
        "test/server/tasks/FeedbackTokens",
        "FeedbackTokens > an end user's feedback is stored with the pseudonym, and the response has no content",
        "FeedbackTokens > a feedback token is accepted by one operation, for its run only",
        "FeedbackTokens > a token that was changed, or that another master key signed, is refused",
        "FeedbackTokens > feedback that is sent again is stored once, and beyond its uses a token is refused",
        "FeedbackTokens > a token ends with the key that created it, and with its run",
        "FeedbackTokens › expiry > a token is refused from its expiry on, and its uses are removed",
        "FeedbackTokens › CORS > a page of an allowed origin may send feedback and read the response, and others may not",
        "FeedbackTokens › CORS > a preflight tells nothing about an organization, and allows no credentials",
        "FeedbackTokens › CORS > no other route has headers of CORS, whatever the origin"
      ),
      ...tests(
        "test/faults/FeedbackTokens",
        "FeedbackTokens › faults > two processes that use the last use of a token at the same time store one feedback"
      )
    ]
  },
  {
    promise: "A key whose text is reported as leaked",
    proofs: tests(
      "test/server/http/LeakedKeys",
      "* > a reported key and the keys that it created are revoked at once, even the last admin key",
      "* > only the whole text of a usable key revokes it, and the response is always the same"
    )
  },
  {
    promise: "Refused authentication is counted and logged",
    proofs: tests(
      "test/server/identity/AuthenticationRefusals",
      "* > refused requests are counted and logged once per reason and address, without the key",
      "*an attack from many addresses is a bounded number of lines, with every request counted"
    )
  },
  {
    promise: "The report of `countersign doctor` and a support bundle",
    proofs: [
      ...tests(
        "test/cli/supportBundle",
        "countersign support-bundle > contains no secret, no data of an organization, no email address and no URL with credentials",
        "countersign support-bundle > is written with invalid settings and without a database too, and quotes no invalid setting",
        "countersign support-bundle > shows only values of settings that are numbers or words of a list"
      ),
      ...tests(
        "test/cli/doctor",
        "countersign doctor > logs in at the mail server, and reports a wrong password without it",
        "countersign doctor > counts secrets under older keys, and fails for a key that is not configured"
      )
    ]
  },
  {
    promise: "Any input is answered by a problem",
    proofs: [
      ...tests(
        "test/faults/robustness",
        "HTTP API › * malformed or extreme requests get declared statuses and problems, and the heap does not grow"
      ),
      ...tests(
        "test/server/http/ProblemFrame",
        "* > a defect gets 500 with the request id and no other information"
      )
    ]
  },
  {
    promise: "Slow, oversized and malformed clients",
    proofs: [
      ...tests(
        "test/server/http/listen",
        "listen: slow clients > many slow clients delay no other request, and their connections are closed",
        "listen: slow clients > a client that * gets 408 and its connection is closed",
        "listen: unparsable requests > a request that * gets a problem, and its connection is closed"
      ),
      ...tests(
        "test/server/admission/Connections",
        "Connections: the limit of all connections > an address with many connections gives one up for another address, down to as many"
      )
    ]
  },
  {
    promise: "A key above its rate is rejected",
    proofs: [
      ...tests(
        "test/domain/identity/RateLimit",
        "RateLimit > in any period at most the rate for that period plus one burst is allowed"
      ),
      ...tests(
        "test/server/admission/RateLimits",
        "* > all keys of an organization share its limit, and other organizations are served",
        "* > a flood of invalid keys is limited and does not delay a valid key"
      )
    ]
  },
  {
    promise: "Keys, open sessions, runs and stored data of an organization are limited",
    proofs: [
      ...tests(
        "test/server/identity/OrganizationLimits",
        "* > concurrent creations of keys do not exceed the limit; revoked keys do not count",
        "* > runs that wait for a provider are limited by number and size, per organization"
      ),
      ...tests(
        "test/server/identity/StoredUsage",
        "* > full storage refuses what would be stored, and decisions on saved steps remain"
      ),
      ...tests(
        "test/server/delivery/Delivery/ReceiverRates",
        "ReceiverRates > in any period at most the rate for that period plus one burst is sent, per organization and in all"
      ),
      ...tests(
        "test/server/notifications/Notifications/limits",
        "* > an endpoint is sent so many test events per minute, and other endpoints as many"
      ),
      ...tests(
        "test/server/notifications/Email/MailChannel",
        "MailChannel > emails beyond the limit of an address fail, and other organizations' to it do not"
      )
    ]
  },
  {
    promise: "An installation can require that the owner of an email address confirms it",
    proofs: tests(
      "test/server/notifications/Email/verification",
      "Email with required verification > an address gets nothing but a link, and approval emails once its owner has confirmed it",
      "Email with required verification > a link is used once, and unknown, used and malformed links are refused alike, on a page that cannot be framed",
      "Email with required verification > the token of a link is neither stored nor shown by the API",
      "Email with required verification > a link expires after 48 hours, and the next event sends another",
      "Email with required verification > a link can be requested again, three times an hour for an address, and each of them can be used",
      "Email with required verification > the addresses of one organization that are sent a link within an hour have a limit, others' have not"
    )
  },
  {
    promise: "Collectors get no header",
    proofs: tests(
      "test/domain/telemetry/CollectorHeaders",
      "checkCollectorHeaders on a header's name > refuses * in upper and lower case",
      "checkCollectorHeaders on all headers together > accepted headers pass unchanged through the platform's Headers"
    )
  },
  {
    promise: "Text from a peer is neither stored nor shown",
    proofs: [
      ...tests(
        "test/server/notifications/Notifications/WebhookChannel",
        "WebhookChannel > redirects are not followed, and no text of the receiver is stored"
      ),
      ...tests(
        "test/server/tasks/Providers/OpenAi",
        "* > a name that only the model used is not repeated in the failure"
      ),
      ...tests(
        "test/e2e/leaks",
        "the service's secrets > appear in no log, row, response or request except where they belong, whatever fails"
      )
    ]
  },
  {
    promise: "Receivers can verify our events",
    proofs: [
      ...tests("test/domain/delivery/WebhookSignature", "WebhookSignature > signs as computed by OpenSSL"),
      ...tests(
        "test/webhook/verify",
        "webhooks signed by the service > verify here for 10,000 bodies, and not after a byte is changed",
        "webhooks signed by the service > verify with the published libraries of Standard Webhooks for 10,000 bodies"
      )
    ]
  },
  {
    promise: "The MCP gate executes an approved call",
    proofs: [
      ...tests(
        "test/adapters/mcpGate",
        "countersign mcp-gate > goes on with the approval that a person gave after the gate was killed",
        "countersign mcp-gate > does not send a call again that it had sent when it was killed",
        "countersign mcp-gate > uses a changed definition of a tool only once a person has approved it"
      ),
      ...tests(
        "test/adapters/mcpGateProtocol",
        "countersign mcp-gate › protocol > binds the state of a stateless call to its arguments, its session and its approval",
        "countersign mcp-gate › protocol > lets no call pass in a batch, under two names, or in a number that parsers read differently",
        "countersign mcp-gate › protocol > keeps its key from the server, and closes its session at the end",
        "countersign mcp-gate › protocol > says that a refused call was not executed, and keeps its decision"
      ),
      ...tests(
        "test/cli/mcpGate/McpGate",
        "the gate in front of an MCP server > passes on no call of a tool without an id, and no method that the protocol does not have",
        "the gate in front of an MCP server > gives a client changed texts of the server about itself only once a person has approved them",
        "the gate in front of an MCP server > gives a client no text of a list of tools beside their accepted definitions"
      ),
      ...tests(
        "test/cli/mcpGate/GateRun",
        "Journal > starts each leg of a call once, whichever process tries"
      )
    ]
  },
  {
    promise: "A backup is restored only if",
    proofs: [
      ...tests(
        "test/server/store/EmbeddedPostgres/backup/backup",
        "countersign backup and restore > altered, cut and incomplete backups are refused, and nothing is restored",
        "countersign backup and restore > an altered backup is refused, also with new checksums, and runs no program with --unsigned",
        "countersign backup and restore > the master key is copied only when asked, apart from the backups, and put back by a restore"
      )
    ]
  },
  {
    promise: "A service that root starts",
    proofs: [
      { file: "test/cli/serve/ownAccount", test: "countersign serve as root > *", needs: "root" },
      ...tests(
        "test/server/store/EmbeddedPostgres",
        "EmbeddedPostgres > commits wait for the disk, and no TCP port is open",
        "EmbeddedPostgres > only connections with the password are accepted"
      )
    ]
  }
]
