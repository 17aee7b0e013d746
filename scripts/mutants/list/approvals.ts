/** Mutants of approvals: their states, rules, deadlines and decisions. */
import type { ListedMutant } from "../list.ts"

const state = "domain/approvals/ApprovalState.ts"
const stateTests = ["domain/approvals/ApprovalState.test.ts"]
const rule = "domain/approvals/CompiledRules.ts"
const ruleTests = ["domain/approvals/CompiledRules.test.ts"]
const textPattern = "domain/approvals/CompiledRules/compileTextPattern.ts"
const condition = "domain/approvals/CompiledRules/compileCondition.ts"
const compare = "domain/approvals/CompiledRules/compareJson.ts"
const resolve = "domain/approvals/CompiledRules/resolvePointer.ts"
const prepare = "server/approvals/Rules/prepareRules.ts"
const quorum = "domain/approvals/Quorum.ts"
const quorumTests = ["domain/approvals/Quorum.test.ts"]
const votes = ["server/approvals/Approvals/quorum.test.ts"]
const digest = "domain/approvals/StepDigest.ts"
const digestTests = ["domain/approvals/StepDigest.test.ts"]
const storedProposalTests = ["domain/approvals/StoredProposal.test.ts"]
const proposals = ["server/approvals/Approvals/proposals.test.ts"]
const grantAllows = "domain/approvals/grantAllows.ts"
const grantAllowsTests = ["domain/approvals/grantAllows.test.ts"]
const takeGrant = "server/approvals/Grants/takeGrant.ts"
const createGrant = "server/approvals/Grants/createGrant.ts"
const grantRows = "server/approvals/Grants/rows.ts"
const grants = ["server/approvals/Grants.test.ts"]
const grantReplicas = ["server/approvals/Grants/twoReplicas.test.ts"]
const decisionTests = ["domain/approvals/StepDecision.test.ts"]
const decisions = ["server/approvals/Approvals.test.ts"]
const deadlines = ["server/approvals/Deadlines.test.ts", "server/approvals/Approvals.test.ts"]
const writer = ["server/approvals/SessionWriter.test.ts"]
const transitionRows = "server/approvals/Approvals/transitionRows.ts"
const rules = ["server/approvals/Rules.test.ts"]
const shadow = ["server/approvals/ShadowRules.test.ts"]
const shadowReplicas = ["server/approvals/ShadowRules/twoReplicas.test.ts"]

export const approvals: ReadonlyArray<ListedMutant> = [
  {
    file: state,
    from: 'if (state.stage === "admin" && !input.admin) return Result.fail("AdminRequired")',
    to: "",
    tests: stateTests
  },
  {
    file: state,
    from: 'if (!state.self_approval && isOwnRequest(state.requested_by, input)) return Result.fail("SelfApproval")',
    to: "",
    tests: stateTests
  },
  {
    file: state,
    from: "requested_by === actor.id || makers.includes(requested_by)",
    to: "requested_by === actor.id",
    tests: stateTests
  },
  {
    file: state,
    from: 'if (state.votes.some((vote) => isSamePerson(vote, input))) return Result.fail("SamePerson")',
    to: "",
    tests: stateTests
  },
  {
    file: state,
    from: "|| makers.includes(other.actor.id) ||",
    to: "||",
    tests: stateTests
  },
  {
    file: state,
    from: "|| other.makers.includes(voted_by.id)",
    to: "",
    tests: stateTests
  },
  {
    file: state,
    from: 'if (!mayVote(state.quorum, { groups, stage: state.stage })) return Result.fail("GroupRequired")',
    to: "",
    tests: stateTests
  },
  {
    file: state,
    from: 'if (countApprovals(state.quorum, votes) < votes.length) return Result.fail("GroupRequired")',
    to: "",
    tests: stateTests
  },
  {
    file: state,
    from: "if (votes.length < approvalsRequired(state.quorum)) {",
    to: "if (votes.length < state.quorum.length) {",
    tests: stateTests
  },
  {
    file: state,
    from: 'decided.success.state.status === "pending" ? timed : withoutWarning(timed)',
    to: "withoutWarning(timed)",
    tests: stateTests
  },
  {
    file: quorum,
    from: "if (holder !== undefined && !assign(holder, tried)) return false",
    to: "if (holder !== undefined) return false",
    tests: quorumTests
  },
  {
    file: quorum,
    from: 'group === null || stage === "admin" || groups.includes(group)',
    to: "group === null || groups.includes(group)",
    tests: quorumTests
  },
  {
    file: "server/approvals/SessionWriter/transitionChange.ts",
    from: "AND a.approvals_given = n.old_approvals_given",
    to: "",
    tests: ["server/approvals/Approvals/votesOfTwoReplicas.test.ts"]
  },
  {
    file: "server/approvals/Approvals.ts",
    from: "decisionEvents.find((event) => event === transitions.at(-1)?.event)",
    to: "decisionEvents.find((_, index) => index === 0 && transitions.length > 0)",
    tests: votes
  },
  {
    file: prepare,
    from: 'known.has(group) ? [] : [{ pointer, detail: "No usable API key',
    to: 'true ? [] : [{ pointer, detail: "No usable API key',
    tests: votes
  },
  {
    file: prepare,
    from: "quorum === undefined && !isDefaultQuorum(rule.quorum)",
    to: "false",
    tests: votes
  },
  {
    file: "server/identity/findDecidingGroups.ts",
    from: "WHERE org_id = ${org_id}",
    to: "WHERE true",
    tests: votes
  },
  {
    file: "server/identity/mayDecide.ts",
    from: "AND ${DECIDES} = ANY (${grantedScopes(sql)})",
    to: "",
    tests: votes
  },
  {
    file: "server/identity/ApiKeys/keyLimits.ts",
    from: 'scopes.has("rules.write") || groups.includes(group)',
    to: "true",
    tests: ["server/identity/ApiKeys.test.ts"]
  },
  {
    file: "server/notifications/Email/rows.ts",
    from: "groups && ${textArray(members.groups)}::text[]",
    to: "true",
    tests: ["server/notifications/Email.test.ts"]
  },
  {
    file: state,
    from: "DateTime.isGreaterThanOrEqualTo(now, state.expires_at)",
    to: "DateTime.isGreaterThan(now, state.expires_at)",
    tests: stateTests
  },
  {
    file: state,
    from: "DateTime.isLessThan(now, adminDeadline)",
    to: "DateTime.isLessThanOrEqualTo(now, adminDeadline)",
    tests: stateTests
  },
  {
    file: state,
    from: "const isOwn = state.decided_by?.id === input.actor.id ||",
    to: "const isOwn = true ||",
    tests: stateTests
  },
  {
    file: state,
    from: 'close(state, now, "expired", "reject", "session_closed")',
    to: 'close(state, now, "expired", state.timeout_action, "session_closed")',
    tests: stateTests
  },
  {
    file: state,
    from: "const last = adminDeadline === null ? state : { ...state, expires_at: adminDeadline }",
    to: "const last = state",
    tests: stateTests
  },
  {
    file: state,
    from: 'transition?.event === "approval.expiring" ? undefined : transition',
    to: "transition",
    tests: stateTests
  },
  { file: digest, from: "step.session_id,", to: "", tests: digestTests },
  {
    file: digest,
    from: "stepArguments === undefined ? names : [...names, stepArguments]",
    to: "[...names, stepArguments ?? null]",
    tests: digestTests
  },
  { file: digest, from: "content.session_id,", to: "", tests: digestTests },
  { file: digest, from: "content.action_class],", to: '"any"],', tests: digestTests },
  {
    file: "domain/approvals/StoredProposal.ts",
    from: "approvalsRequired(terms.quorum) === 1 &&",
    to: "",
    tests: storedProposalTests
  },
  {
    file: "domain/approvals/StoredProposal.ts",
    from: 'mayVote(terms.quorum, { groups: proposer.groups, stage: "reviewer" }) &&',
    to: "",
    tests: storedProposalTests
  },
  {
    file: "domain/approvals/StoredProposal.ts",
    from: "(terms.self_approval || !requesters.some((id) => isOwnRequest(id, proposer)))",
    to: "true",
    tests: storedProposalTests
  },
  {
    file: state,
    from: "if (input.proposal !== undefined && input.proposal.digest !== state.proposal?.digest)",
    to: "if (false)",
    tests: stateTests
  },
  {
    file: "server/approvals/proposalRows.ts",
    from: "AND ${mayDecide(sql, now)}",
    to: "",
    tests: proposals
  },
  {
    file: "server/approvals/Rules/lockRules.ts",
    from: "FOR NO KEY UPDATE",
    to: "",
    tests: rules
  },
  {
    file: "server/approvals/Approvals/decideMany.ts",
    from: "Effect.map(withoutArguments),",
    to: "",
    tests: ["server/approvals/Approvals/decideMany.test.ts"]
  },
  {
    file: rule,
    from: "if (asks) question = withLargerQuorum(question, ruling)",
    to: "",
    tests: ruleTests
  },
  {
    file: condition,
    from: "this.#counts.set(value, count)",
    to: "",
    tests: ruleTests
  },
  {
    file: "domain/approvals/CompiledRules/makePatternCompiler.ts",
    from: "|| faults.length === MAX_FAULTS ||",
    to: "||",
    tests: ruleTests
  },
  {
    file: "domain/tasks/CompiledSchema/LinearPattern.ts",
    from: "estimateSize(pattern) > MAX_ESTIMATED_SIZE",
    to: "estimateSize(pattern) < 0",
    tests: ["domain/tasks/CompiledSchema/judgements.test.ts"]
  },
  {
    file: "domain/approvals/suggestRules.ts",
    from: "decisions.filter(canBeNamed)",
    to: "decisions",
    tests: ["domain/approvals/suggestRules.test.ts"]
  },
  {
    file: "server/approvals/proposalRows.ts",
    from: "AND proposal_expires_at > ${toDate(now)}",
    to: "",
    tests: proposals
  },
  {
    file: "server/approvals/proposalRows.ts",
    from: `AND proposed_digest = \${digest}
        AND proposal_step_id IS NULL`,
    to: "AND proposed_digest = ${digest}",
    tests: proposals
  },
  {
    file: "server/approvals/SessionWriter/writeStatement.ts",
    from: "AND (NOT o.asks OR s.proposals_until IS NULL OR s.proposals_until <= o.at)",
    to: "",
    tests: proposals
  },
  {
    file: "server/approvals/Steps/stepsInTransaction.ts",
    from: "requesters: [created_by_id, actor.id],",
    to: "requesters: [actor.id],",
    tests: proposals
  },
  {
    file: "server/approvals/Steps/stepsInTransaction.ts",
    from: "requesters: [created_by_id, actor.id],",
    to: "requesters: [created_by_id],",
    tests: proposals
  },
  {
    file: "domain/approvals/StepDecision.ts",
    from: "saved.arguments_digest === digest(saved) ? [] :",
    to: "true ? [] :",
    tests: decisionTests
  },
  {
    file: "domain/approvals/StepDecision.ts",
    from: 'if (ruling.effect === "reject") {',
    to: 'if (ruling.effect === "reject" && approval === null) {',
    tests: decisionTests
  },
  {
    file: rule,
    from: 'rule_id: null, effect: "require_approval",',
    to: 'rule_id: null, effect: "allow",',
    tests: ruleTests
  },
  {
    file: rule,
    from: "if (rule.task_id !== null && rule.task_id !== step.task_id) continue",
    to: "",
    tests: ruleTests
  },
  {
    file: rule,
    from: 'if (rule.effect === "allow") {',
    to: "if (true) {",
    tests: ruleTests
  },
  {
    file: rule,
    from: 'effect: "require_approval", reason: `${rule.reason',
    to: 'effect: "allow", reason: `${rule.reason',
    tests: ruleTests
  },
  {
    file: rule,
    from: 'terms: { ...ruling.terms, timeout_action: "reject", self_approval: false }',
    to: "terms: ruling.terms",
    tests: ruleTests
  },
  {
    file: rule,
    from: 'if (judgement === "fails") return { condition: one.condition, judgement }',
    to: "",
    tests: ruleTests
  },
  {
    file: condition,
    from: 'const unjudged = (value: Resolved): Unjudged => (value === undefined ? "missing" : "mistyped")',
    to: 'const unjudged = (_value: Resolved): any => "fails"',
    tests: ruleTests
  },
  { file: condition, from: 'if (!types.has(type)) return "mistyped"', to: "", tests: ruleTests },
  {
    file: condition,
    from: 'if (value.length === 0) return isEvery ? "empty" : "fails"',
    to: "",
    tests: ruleTests
  },
  {
    file: condition,
    from: 'if (judgement !== "holds" && judgement !== "fails") result = judgement',
    to: "",
    tests: ruleTests
  },
  { file: condition, from: 'if (judgement !== "holds") result = judgement', to: "", tests: ruleTests },
  {
    file: condition,
    from: 'value === UNREACHABLE ? "mistyped" : value === undefined ? missing : present',
    to: "value === UNREACHABLE || value === undefined ? missing : present",
    tests: ruleTests
  },
  {
    file: condition,
    from: "return this.#left >= 0",
    to: "return true",
    tests: ruleTests
  },
  {
    file: compare,
    from: 'if (typeOfJson(expected) !== typeOfJson(value)) return "mistyped"',
    to: 'if (typeOfJson(expected) !== typeOfJson(value)) return "different"',
    tests: ruleTests
  },
  {
    file: resolve,
    from: "value = Object.hasOwn(value, segment) ? value[segment] : undefined",
    to: "value = value[segment]",
    tests: ruleTests
  },
  { file: resolve, from: "if (!INDEX.test(segment)) return UNREACHABLE", to: "", tests: ruleTests },
  {
    file: prepare,
    from: "when === undefined && rule.when.length > 0",
    to: "false",
    tests: rules
  },
  {
    file: "server/approvals/Rules.ts",
    from: "arguments: compiled.readsArguments ? yield* stepArguments : undefined",
    to: "arguments: undefined",
    tests: rules
  },
  {
    file: "domain/approvals/ShadowDifference.ts",
    from: "shadow === null || shadow.ruling.effect === effect",
    to: "shadow === null",
    tests: ["domain/approvals/ShadowDifference.test.ts"]
  },
  {
    file: "server/approvals/ShadowRules.ts",
    from: "yield* requireRevision(input.revision, previous)",
    to: "",
    tests: shadow
  },
  {
    file: "server/approvals/ShadowRules.ts",
    from: "yield* requireRevision(shadow_revision, stored.shadow_revision)",
    to: "",
    tests: shadow
  },
  {
    file: "server/approvals/ShadowRules.ts",
    from: "shadow_since = NULL, shadow_revision = shadow_revision + 1",
    to: "shadow_since = NULL",
    tests: shadow
  },
  {
    file: "server/approvals/ShadowRules/differences.ts",
    from: "(requested_at, session_id, step_id) < (",
    to: "(requested_at, session_id, step_id) <= (",
    tests: shadow
  },
  {
    file: "server/approvals/SessionWriter/writeStatement.ts",
    from: "o.shadow_revision = coalesce(r.shadow_revision, 0)",
    to: "true",
    tests: shadowReplicas
  },
  {
    file: "server/approvals/Rules.ts",
    from: "row.shadow_revision === cached?.shadow_revision ? cached.shadow : yield* shadowOf(org_id, row)",
    to: "cached?.shadow ?? (yield* shadowOf(org_id, row))",
    tests: shadowReplicas
  },
  { file: textPattern, from: "text.length < head.length + tail.length ||", to: "", tests: ruleTests },
  { file: textPattern, from: "|| found + part.length > end", to: "", tests: ruleTests },
  {
    file: "server/approvals/approvalRows.ts",
    from: "FOR NO KEY UPDATE OF agent_sessions, approvals",
    to: "",
    tests: writer
  },
  {
    file: "server/approvals/approvalRows.ts",
    from: "WHERE org_id = ${org_id} AND approvals.approval_id = ${id}",
    to: "WHERE approvals.approval_id = ${id}",
    tests: writer
  },
  {
    file: "server/approvals/approvalRows.ts",
    from: "FROM approvals WHERE org_id = ${org_id} AND approval_id = ${id}",
    to: "FROM approvals WHERE approval_id = ${id}",
    tests: decisions
  },
  {
    file: transitionRows,
    from: "FOR NO KEY UPDATE OF agent_sessions, approvals SKIP LOCKED",
    to: "FOR NO KEY UPDATE OF agent_sessions, approvals",
    tests: deadlines
  },
  {
    file: transitionRows,
    from: "(approvals.next_due_at, approvals.approval_id) > (",
    to: "(approvals.next_due_at, approvals.approval_id) >= (",
    tests: deadlines,
    equivalent:
      "the approval at the cursor is locked and skipped until its transaction commits, and then has another due time"
  },
  {
    file: "server/approvals/Deadlines.ts",
    from: "yield* sql`SET LOCAL lock_timeout = 0`",
    to: "",
    tests: deadlines
  },
  {
    file: "server/approvals/Deadlines.ts",
    from: "Duration.isZero(next_due_in) ? lockedRetry :",
    to: "",
    tests: deadlines
  },
  {
    file: "server/approvals/Rules.ts",
    from: "sql`AND revision = ${input.revision}`",
    to: 'sql.literal("")',
    tests: rules
  },
  {
    file: prepare,
    from: "rule.expiring_seconds >= rule.review_seconds",
    to: "rule.expiring_seconds > rule.review_seconds",
    tests: rules
  },
  {
    file: prepare,
    from: "WHERE org_id = ${org_id} AND task_id = ANY",
    to: "WHERE task_id = ANY",
    tests: [...rules, "api/Tenancy.test.ts"]
  },
  {
    file: "server/approvals/Approvals.ts",
    from: "const redacted = yield* redactTexts(principal, request)",
    to: "const redacted = request",
    tests: ["server/redaction/RedactionSettings.test.ts"]
  },
  {
    file: grantAllows,
    from: "step.ruling.unjudged !== true &&",
    to: "",
    tests: grantAllowsTests
  },
  {
    file: grantAllows,
    from: 'step.ruling.effect === "require_approval" &&',
    to: "",
    tests: grantAllowsTests
  },
  {
    file: grantAllows,
    from: "mayAnswer(grant.granter, step.ruling.terms, step.requesters) &&",
    to: "",
    tests: grantAllowsTests
  },
  {
    file: grantAllows,
    from: "if (grant.tool !== step.tool || grant.action_class !== step.action_class) return false",
    to: "",
    tests: grantAllowsTests
  },
  {
    file: grantAllows,
    from: "return grant.content_digest === step.contentDigest()",
    to: "return true",
    tests: grantAllowsTests
  },
  {
    file: grantAllows,
    from: "return grant.conditions.hold(step.arguments)",
    to: "return true",
    tests: grantAllowsTests
  },
  {
    file: "domain/approvals/grantDigest.ts",
    from: "content.session_id,",
    to: "",
    tests: grantAllowsTests
  },
  {
    file: rule,
    from: "unjudged: true",
    to: "",
    tests: grants
  },
  {
    file: takeGrant,
    from: "AND grants.session_id = ${session_id}",
    to: "",
    tests: grants
  },
  {
    file: takeGrant,
    from: "AND ${mayDecide(sql, now)}",
    to: "",
    tests: grants
  },
  {
    file: takeGrant,
    from: "uses = uses + 1,",
    to: "",
    tests: [...grants, ...grantReplicas]
  },
  {
    file: grantRows,
    from: "SET grants_until = greatest(grants_until, ${toDate(row.expires_at)})",
    to: "SET grants_until = grants_until",
    tests: grants
  },
  {
    file: createGrant,
    from: "approvalsRequired(quorum ?? DEFAULT_QUORUM) > 1",
    to: "false",
    tests: grants
  },
  {
    file: createGrant,
    from: 'if (request.scope === "condition" && !conditions.hold(stepArguments))',
    to: "if (false)",
    tests: grants
  },
  {
    file: createGrant,
    from: "if (open.session >= limits.session)",
    to: "if (false)",
    tests: grants
  },
  {
    file: "server/approvals/Approvals.ts",
    from: "result.refusal === null && result.grant === undefined",
    to: "false",
    tests: grants
  },
  {
    file: "server/approvals/Sessions.ts",
    from: "if (canHaveGrants(locked?.grants_until ?? null, now))",
    to: "if (false)",
    tests: grants
  },
  {
    file: "server/approvals/SessionWriter/writeStatement.ts",
    from: "AND (NOT o.asks OR s.grants_until IS NULL OR s.grants_until <= o.at)",
    to: "",
    tests: grants
  },
  {
    file: "server/approvals/Steps/stepsInTransaction.ts",
    from: "requesters: [actor.id, created_by_id],",
    to: "requesters: [],",
    tests: grants
  },
  {
    file: "server/approvals/deleteSessions.ts",
    from: '{ table: "grants", bytes: `${rowBytes.grant} + octet_length(conditions::text)` }',
    to: "",
    tests: grants
  },
  {
    file: "server/approvals/SessionWriter/writeStatement.ts",
    from: "OR s.grants_until <= o.at)",
    to: ")",
    tests: grants
  },
  {
    file: createGrant,
    from: "if (open.organization >= limits.organization)",
    to: "if (false)",
    tests: grants
  }
]
