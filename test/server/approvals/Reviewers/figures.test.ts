import { assert, layer } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { RECENT_APPROVALS } from "../../../../src/domain/approvals/Reviewer/reviewerStanding.ts"
import { Reviewers } from "../../../../src/server/approvals/Reviewers.ts"
import { providerEnvironment, reviewerTeam } from "../../../support/reviewers.ts"
import { service } from "../../../support/service.ts"

/** Numbers from 0 to 1 that are the same in every run (mulberry32). */
const random = (seed: number) => {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** A decision and the answer about it, as the test draws them. Times are seconds after the first. */
interface Drawn {
  readonly tool: string
  readonly amount: number | null
  readonly answer: "approve" | "reject" | "unsure" | null
  readonly outcome: "allow" | "reject"
  readonly source: "human" | "timeout"
  readonly person: string
  readonly requested: number
  readonly decided: number
  readonly bytes: number
}

/** The hours of the requests, from the Monday of the first of two weeks on. */
const HOURS = [1, 30, 31, 32, 200]
const AGENT = "the agent"
const PEOPLE = ["Ada", "Bea", AGENT]

const drawAll = (count: number): ReadonlyArray<Drawn> => {
  const next = random(7)
  const pick = <A>(...items: ReadonlyArray<A>): A => items[Math.floor(next() * items.length)]!
  return Array.from({ length: count }, () => {
    const requested = Math.floor((pick(...HOURS) + next()) * 3600)
    // Some are decided in bursts that nobody can read, at the end of an hour.
    const decided =
      next() < 0.4
        ? (Math.floor(requested / 3600) + 1) * 3600 + Math.floor(next() * 90)
        : requested + Math.floor(next() * 12)
    return {
      tool: pick("pay", "pay", "refund"),
      amount: pick(50, 150, 5_000, null),
      answer: pick("approve", "approve", "approve", "reject", "unsure", null),
      outcome: next() < 0.8 ? "allow" : "reject",
      source: next() < 0.9 ? "human" : "timeout",
      person: pick(...PEOPLE),
      requested,
      decided,
      bytes: Math.floor(next() * 4_000)
    }
  })
}

/**
 * The decisions that a person can have read, computed in another way than the service does: for each decision on its own, by a walk through
 * what the same person decided since an hour before the hour of it.
 */
const isRead = (one: Drawn, all: ReadonlyArray<Drawn>): boolean => {
  const since = (Math.floor(one.decided / 3600) - 1) * 3600
  const own = all
    .filter(({ decided, person, source }) => source === "human" && person === one.person && decided >= since)
    .filter(({ decided }) => decided <= one.decided)
    .toSorted((left, right) => left.decided - right.decided)
  let credit = 600
  let at = own[0]?.decided ?? 0
  for (const decision of own) {
    credit = Math.min(600, credit + decision.decided - at)
    at = decision.decided
    const needed = Math.min(30, 1 + decision.bytes / 70)
    const counts = decision.decided - decision.requested >= needed && credit >= needed
    if (decision === one) return counts
    if (counts) credit -= needed
  }
  return false
}

const logFactorial = (n: number): number => {
  let sum = 0
  for (let i = 2; i <= n; i++) sum += Math.log(i)
  return sum
}

/** Whether a bound is the end of the confidence sequence: there, the chance of what was seen, times the looks, is the error. */
const isBound = ({
  bound,
  count,
  of
}: {
  readonly count: number
  readonly of: number
  readonly bound: number
}) => {
  if (bound === 0 || bound === 1) return count === 0 || count === of || of === 0
  const log =
    Math.log(of + 1) +
    logFactorial(of) -
    logFactorial(count) -
    logFactorial(of - count) +
    count * Math.log(bound) +
    (of - count) * Math.log(1 - bound)
  return Math.abs(log - Math.log(0.05)) < 1e-6
}

layer(service({ environment: providerEnvironment }), { excludeTestServices: true, timeout: "60 seconds" })(
  "The figures of reviewer models",
  (it) => {
    it.effect("are those that the decisions and the answers give by hand", () =>
      Effect.gen(function* () {
        const { admin, params, session_id } = yield* reviewerTeam("by hand", () => "never", {
          tools: ["nothing"],
          amount: { pointer: "/amount", bounds: [100, 1_000] }
        })
        const sql = yield* SqlClient.SqlClient
        const drawn = drawAll(900)
        const bandOf = (amount: number | null) =>
          amount === null ? -1 : amount <= 100 ? 0 : amount <= 1_000 ? 1 : 2
        // The release is as old as the first hour: the requests before it do not count.
        const start = DateTime.startOf(DateTime.subtract(DateTime.nowUnsafe(), { weeks: 3 }), "week", {
          weekStartsOn: 1
        })
        const since = 2 * 3600
        const at = (seconds: number) => DateTime.toDateUtc(DateTime.add(start, { seconds }))
        yield* sql`UPDATE releases SET created_at = ${at(since)} WHERE task_id = ${params.task_id}`
        const rows = drawn.map((one, index) => ({
          ...one,
          ...{ index, band: bandOf(one.amount), requested: at(one.requested), decided: at(one.decided) },
          key: `key_${one.person === AGENT ? "agent" : one.person}`
        }))
        yield* sql`
        INSERT INTO approvals (
          org_id, approval_id, session_id, step_id, tool, action_class, arguments_bytes, arguments_digest, status, stage, requested_at,
          requested_by_id, review_deadline_at, expires_at, timeout_action, outcome, decision_source, decided_at, decided_by_id,
          decided_by_name
        )
        SELECT
          org_id, 'apr_' || lpad(row ->> 'index', 32, '0'), ${session_id}, 'step ' || (row ->> 'index'), row ->> 'tool', 'write',
          (row ->> 'bytes')::int, '', CASE row ->> 'outcome' WHEN 'allow' THEN 'approved' ELSE 'rejected' END, 'reviewer',
          (row ->> 'requested')::timestamptz, 'key_agent', now(), now(), 'reject', row ->> 'outcome', row ->> 'source',
          (row ->> 'decided')::timestamptz, CASE row ->> 'source' WHEN 'human' THEN row ->> 'key' END, row ->> 'person'
        FROM reviewers, json_array_elements(${JSON.stringify(rows)}::json) AS row
        WHERE task_id = ${params.task_id}
      `
        yield* sql`
        INSERT INTO reviewer_answers (
          org_id, answer_id, task_id, release_id, session_id, step_id, approval_id, tool, band, mode, answer, reason, calls, tokens,
          requested_at, created_at
        )
        SELECT
          reviewers.org_id, 'rva_' || lpad(row ->> 'index', 32, '0'), task_id, live_release_id, ${session_id}, 'step ' || (row ->> 'index'),
          'apr_' || lpad(row ->> 'index', 32, '0'), row ->> 'tool', (row ->> 'band')::smallint, 'shadow', row ->> 'answer', '', 1, 1, now(),
          now()
        FROM reviewers
          JOIN tasks USING (org_id, task_id), json_array_elements(${JSON.stringify(rows)}::json) AS row
        WHERE task_id = ${params.task_id}
      `

        const counted = drawn.filter(
          (one) =>
            one.answer !== null &&
            one.source === "human" &&
            one.person !== AGENT &&
            one.requested >= since &&
            isRead(one, drawn)
        )
        assert.isAbove(counted.length, 150)
        assert.isBelow(counted.length, 450)
        const { figures } = yield* admin.reviewers.get({ params })
        for (const tool of ["pay", "refund"]) {
          for (const band of [-1, 0, 1, 2]) {
            const own = counted.filter((one) => one.tool === tool && bandOf(one.amount) === band)
            const found = figures.find(
              (one) =>
                one.tool === tool &&
                (band < 0
                  ? !one.has_amount
                  : one.band?.up_to === ([100, 1_000, null] as const)[band] && one.has_amount)
            )
            assert.isDefined(found, `${tool} ${band}`)
            const number = (answer: string, outcome: string) =>
              own.filter((one) => one.answer === answer && one.outcome === outcome).length
            const place = `${tool} ${band}`
            const approvals = number("approve", "allow") + number("approve", "reject")
            const rejections = number("reject", "allow") + number("reject", "reject")
            const agreed = number("approve", "allow") + number("reject", "reject")
            assert.deepInclude(found.agreement, { count: agreed, of: approvals + rejections }, place)
            assert.deepInclude(
              found.false_approvals,
              { count: number("approve", "reject"), of: approvals },
              place
            )
            assert.deepInclude(
              found.false_rejections,
              { count: number("reject", "allow"), of: rejections },
              place
            )
            assert.strictEqual(found.unsure, number("unsure", "allow") + number("unsure", "reject"), place)
            for (const share of [found.agreement, found.false_approvals, found.false_rejections])
              assert.strictEqual(isBound(share), true, `${place}: ${JSON.stringify(share)}`)
            assert.isBelow(found.agreement.bound, agreed / (approvals + rejections))
            assert.isAtLeast(found.false_approvals.bound, number("approve", "reject") / approvals)
            // All of them are in the weeks of their decisions.
            const inWeek = (week: number) =>
              own.filter(({ decided }) => Math.floor(decided / (7 * 86_400)) === week).length
            assert.deepStrictEqual(
              found.weeks.map((one) => [
                one.week,
                one.agreed + one.false_approvals + one.false_rejections + one.unsure
              ]),
              [1, 0].flatMap((week) =>
                inWeek(week) === 0
                  ? []
                  : [[DateTime.formatIsoDateUtc(DateTime.add(start, { weeks: week })), inWeek(week)]]
              ),
              place
            )

            // The newest approvals, which show a fall.
            const right = yield* (yield* Reviewers).rightOf(
              (yield* sql<{
                readonly org_id: never
              }>`SELECT org_id FROM reviewers WHERE task_id = ${params.task_id}`)[0]!.org_id,
              params.task_id,
              { tool, arguments: { amount: ([null, 50, 150, 5_000] as const)[band + 1] ?? null } }
            )
            const newest = own
              .filter(({ answer }) => answer === "approve")
              .toSorted((left, other) => other.decided - left.decided)
              .slice(0, RECENT_APPROVALS)
            assert.isDefined(right)
            assert.strictEqual(right.band, band)
            if (new Set(newest.map(({ decided }) => decided)).size === newest.length)
              assert.deepStrictEqual(right.counts.recent, {
                agreed: newest.filter(({ outcome }) => outcome === "allow").length,
                disagreed: newest.filter(({ outcome }) => outcome === "reject").length
              })
          }
        }
        assert.lengthOf(figures, 8)
        // Answers are counted once, however often they are read.
        assert.deepStrictEqual((yield* admin.reviewers.get({ params })).figures, figures)
      })
    )
  }
)
