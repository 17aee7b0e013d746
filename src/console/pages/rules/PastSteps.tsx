import { Cause, Clock, DateTime, Effect, Exit, Stream } from "effect"
import { useEffect, useRef, useState } from "react"
import type { RuleTestProgress, RuleTestResult, RuleTestStep } from "../../../domain/approvals/RuleTest.ts"
import { Link } from "../../app/router.tsx"
import { apiClient } from "../../state/apiClient.ts"
import { Button } from "../../ui/Button.tsx"
import { type Failure, failureOfAction } from "../../ui/Failure.ts"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { InlineSelect } from "../../ui/Select.tsx"
import { Table } from "../../ui/Table.tsx"
import { RelativeTime } from "../../ui/Time.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { type RuleDraft, toPayload } from "./RuleDraft.ts"

/** Windows of a test, in days. */
const windows = [1, 7, 30, 90] as const

/** Most steps that are shown for each finding. */
const MAX_SHOWN = 50

/** The findings of a test until now. */
interface TestRun {
  readonly drafts: ReadonlyArray<RuleDraft>
  readonly findings: ReadonlyArray<RuleTestStep>
  readonly progress: typeof RuleTestProgress.Type | undefined
  readonly result: RuleTestResult | undefined
}

/** A test that the page runs: one at a time. It ends when the page is left. */
const useRuleTest = () => {
  const [run, setRun] = useState<TestRun>()
  const [failure, setFailure] = useState<Failure>()
  const [pending, setPending] = useState(false)
  const running = useRef<AbortController>(undefined)
  useEffect(() => () => running.current?.abort(), [])

  const start = async (drafts: ReadonlyArray<RuleDraft>, days: number) => {
    running.current?.abort()
    const controller = new AbortController()
    running.current = controller
    const findings: Array<RuleTestStep> = []
    const test = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const since = DateTime.subtract(DateTime.makeUnsafe(now), { days })
      const lines = yield* apiClient.approvalRules.test({
        payload: { rules: drafts.map(toPayload), since }
      })
      yield* Stream.runForEach(lines, (line) =>
        Effect.sync(() => {
          if (line.type === "step") findings.push(line)
          else
            setRun({
              drafts,
              findings: [...findings],
              progress: line.type === "progress" ? line : undefined,
              result: line.type === "result" ? line : undefined
            })
        })
      )
    })
    setRun(undefined)
    setFailure(undefined)
    setPending(true)
    const exit = await Effect.runPromiseExit(test, { signal: controller.signal })
    if (running.current !== controller) return
    setPending(false)
    if (Exit.isFailure(exit) && !Cause.hasInterruptsOnly(exit.cause)) setFailure(failureOfAction(exit.cause))
  }
  return { run, failure, pending, start, stop: () => running.current?.abort() }
}

/** Tests the rules on the page, saved or not, on the steps of a window. */
export const PastSteps = ({ drafts }: { readonly drafts: ReadonlyArray<RuleDraft> }) => {
  const [days, setDays] = useState<number>(30)
  const test = useRuleTest()
  const { run } = test
  return (
    <section className="card rules-panel padded stack" aria-labelledby="past-steps">
      <div>
        <h2 id="past-steps">Try on past steps</h2>
        <p className="quiet small">
          Evaluates the rules on this page, saved or not, on every step that was submitted, and compares with
          what was decided. Nothing is changed.
        </p>
      </div>
      <form
        className="filters"
        onSubmit={(event) => {
          event.preventDefault()
          void test.start(drafts, days)
        }}
      >
        <InlineSelect
          label="Steps of the last"
          value={days}
          onChange={setDays}
          options={windows.map((one) => [one, one === 1 ? "day" : `${one} days`])}
        />
        <Button type="submit" pending={test.pending}>
          Try the rules
        </Button>
        {test.pending ? <Button onClick={test.stop}>Stop</Button> : null}
      </form>
      <FailureNotice failure={test.failure} />
      <p role="status" className="quiet">
        {test.pending
          ? `${(run?.progress?.steps ?? 0).toLocaleString("en")} steps evaluated`
          : run?.result === undefined
            ? ""
            : run.result.steps === 0
              ? "No steps were submitted in this time."
              : `${run.result.steps.toLocaleString("en")} steps evaluated`}
      </p>
      {run === undefined || run.drafts === drafts ? null : (
        <p className="notice warn">The rules changed since this test. Try them again.</p>
      )}
      {run?.result === undefined || run.result.steps === 0 ? null : (
        <TestResult result={run.result} findings={run.findings} />
      )}
    </section>
  )
}

const effectRows = [
  ["allow", "Allowed without asking"],
  ["reject", "Rejected without asking"],
  ["require_approval", "A person is asked"]
] as const

const TestResult = ({
  findings,
  result
}: {
  readonly result: RuleTestResult
  readonly findings: ReadonlyArray<RuleTestStep>
}) => (
  <>
    <Table
      bare
      columns={["Steps", { name: "Recorded", number: true }, { name: "With these rules", number: true }]}
    >
      {effectRows.map(([effect, text]) => (
        <tr key={effect}>
          <th scope="row">{text}</th>
          <td className="number">{result.recorded[effect].toLocaleString("en")}</td>
          <td className="number">{result.tested[effect].toLocaleString("en")}</td>
        </tr>
      ))}
    </Table>
    <p>
      {result.fewer_questions.toLocaleString("en")} fewer questions,{" "}
      {result.more_questions.toLocaleString("en")} more. {result.same_as_person.toLocaleString("en")}{" "}
      questions get the answer that a person gave.
    </p>
    <Findings
      title="A person rejected these, and they would run"
      count={result.rejected_would_run}
      steps={findings.filter(({ finding }) => finding === "rejected_would_run")}
    />
    <Findings
      title="A person approved these, and they would be rejected"
      count={result.approved_would_be_rejected}
      steps={findings.filter(({ finding }) => finding === "approved_would_be_rejected")}
    />
  </>
)

const Findings = ({
  count,
  steps,
  title
}: {
  readonly title: string
  readonly count: number
  readonly steps: ReadonlyArray<RuleTestStep>
}) => {
  const shown = steps.slice(0, MAX_SHOWN)
  return (
    <div>
      <h3>
        {title}: {count.toLocaleString("en")}
      </h3>
      {shown.length === 0 ? null : (
        <ul className="rows">
          {shown.map((step) => (
            <li key={step.approval_id} className="row">
              <div className="row-line">
                <span className="row-text">
                  <Link to={`/approvals/${step.approval_id}`}>
                    <UntrustedText text={step.tool} />
                  </Link>{" "}
                  <span className="small">
                    rule {step.rule_index + 1}: <UntrustedText text={step.reason} />
                  </span>
                  {step.comment === null ? null : (
                    <span className="small">
                      Comment: <UntrustedText text={step.comment} />
                    </span>
                  )}
                </span>
                <span className="quiet small row-meta">
                  {step.decided_by === null ? null : <UntrustedText text={step.decided_by.name} />} ·{" "}
                  <RelativeTime time={step.requested_at} />
                </span>
              </div>
            </li>
          ))}
        </ul>
      )}
      {count > shown.length ? (
        <p className="quiet small">
          The newest {shown.length} are shown. <code>countersign rules test</code> lists more.
        </p>
      ) : null}
    </div>
  )
}
