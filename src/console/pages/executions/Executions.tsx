import { DateTime, Effect, Record, Schema } from "effect"
import { Atom } from "effect/reactivity"
import { useState } from "react"
import type { Execution, ExecutionState, Resolution } from "../../../domain/approvals/Execution.ts"
import { ClaimId } from "../../../domain/Ids.ts"
import { Link, navigate } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
import { refreshAlerts } from "../../state/alerts.ts"
import { apiClient } from "../../state/apiClient.ts"
import { refresh } from "../../state/atoms.ts"
import { pagedAtom } from "../../state/pagedAtom.ts"
import { defineQuery } from "../../state/queryState.ts"
import { useKeptText } from "../../state/keptWork.ts"
import { useCan, useSession } from "../../state/session.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Badge, type Tone } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { CopyableId } from "../../ui/CopyButton.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { fieldError } from "../../ui/Failure.ts"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { JsonTree } from "../../ui/JsonTree.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { RadioField } from "../../ui/RadioField.tsx"
import { Table } from "../../ui/Table.tsx"
import { Tabs } from "../../ui/Tabs.tsx"
import { TextAreaField } from "../../ui/TextField.tsx"
import { AbsoluteTime, RelativeTime } from "../../ui/Time.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { useAction } from "../../ui/useAction.ts"
import { useQueryState } from "../../ui/useQueryState.ts"

const parameters = defineQuery({ show: Schema.Literal("all") })

/** Executions that a person has to resolve, or all that were uncertain. */
const listAtom = Atom.family((show: "unknown" | "all") =>
  pagedAtom(
    (cursor: ClaimId | undefined) =>
      apiClient.executions.list({
        query: {
          ...(show === "unknown" ? { state: show } : {}),
          ...(cursor === undefined ? {} : { cursor })
        }
      }),
    "executions"
  )
)

const executionAtom = Atom.family((claim_id: ClaimId) =>
  Atom.make(apiClient.executions.get({ params: { claim_id } }))
)

const isClaimId = Schema.is(ClaimId)

/** The executions of claimed steps whose outcome is or was unknown, or one of them with the form that resolves it. */
export default function Executions({ params }: PageProps) {
  const id = params["id"]
  if (id === undefined) return <ExecutionList />
  return isClaimId(id) ? <OneExecution id={id} /> : <EmptyState title="Execution not found" />
}

const ExecutionList = () => {
  const [{ show = "unknown" }, setQuery] = useQueryState(parameters)
  const { key } = useSession()
  return (
    <>
      <PageHeader
        title="Executions"
        aside={
          <Tabs
            label="Executions"
            selected={show}
            onSelect={(next) => setQuery({ show: next === "all" ? next : undefined })}
            options={[
              ["unknown", "To resolve"],
              ["all", "All"]
            ]}
          />
        }
      >
        Steps that an agent claimed and whose outcome it did not report in time. Nothing is executed again by
        itself.
      </PageHeader>
      <PagedList key={show} atom={listAtom(show)} itemId={({ claim_id }: Execution) => claim_id}>
        {(loaded, hasMore) => {
          const executions =
            show === "all" ? loaded : loaded.filter(({ claimed_by }) => claimed_by.id !== key.id)
          return executions.length === 0 ? (
            <EmptyState
              title={
                show === "all"
                  ? "No uncertain executions"
                  : hasMore
                    ? "Nothing to resolve so far"
                    : loaded.length > 0
                      ? "Nothing that you can resolve"
                      : "Nothing to resolve"
              }
            >
              {loaded.length > 0
                ? "Your key claimed the executions up to here: another person has to resolve them."
                : "An execution is listed when its claim ends without an outcome."}
            </EmptyState>
          ) : (
            <Table columns={["Step", "Claimed by", "Unknown since", "State"]}>
              {executions.map((execution) => (
                <Row key={execution.claim_id} execution={execution} />
              ))}
            </Table>
          )
        }}
      </PagedList>
    </>
  )
}

const states: Record<ExecutionState, readonly [tone: Tone, label: string]> = {
  executing: ["wait", "Executing"],
  unknown: ["bad", "Unknown"],
  completed: ["good", "Completed"],
  retryable: ["wait", "May be retried"]
}

const Row = ({ execution }: { readonly execution: Execution }) => {
  const [tone, label] = states[execution.state]
  return (
    <tr>
      <td>
        <Name execution={execution} />
      </td>
      <td data-label="Claimed by">
        <UntrustedText text={execution.claimed_by.name} />
      </td>
      <td data-label="Unknown since">
        <RelativeTime time={execution.unknown_at} />
      </td>
      <td data-label="State">
        <Badge tone={tone}>{label}</Badge>
      </td>
    </tr>
  )
}

const Name = ({ execution }: { readonly execution: Execution }) => (
  <div className="about">
    <Link to={`/executions/${execution.claim_id}`}>
      <UntrustedText text={execution.tool} />
    </Link>
    <span className="quiet small">
      <UntrustedText text={execution.step_id} />
    </span>
  </div>
)

const OneExecution = ({ id }: { readonly id: ClaimId }) => {
  const atom = executionAtom(id)
  return (
    <div className="stack">
      <p>
        <Link to="/executions">← All executions</Link>
      </p>
      <AsyncContent atom={atom}>
        {(execution) => <Detail execution={execution} onChange={() => refresh(atom)} />}
      </AsyncContent>
    </div>
  )
}

const Detail = ({
  execution,
  onChange
}: {
  readonly execution: Execution
  readonly onChange: () => void
}) => {
  const can = useCan()
  const { key } = useSession()
  const { outcome, resolution } = execution
  const [tone, label] = states[execution.state]
  const isOpen = execution.state === "unknown" || execution.state === "retryable"
  return (
    <>
      <PageHeader
        title={<UntrustedText text={execution.tool} />}
        aside={<Badge tone={tone}>{label}</Badge>}
      />
      <dl className="card padded facts">
        <div>
          <dt>Step</dt>
          <dd>
            <UntrustedText text={execution.step_id} />
            {can("sessions.read") ? (
              <>
                {" "}
                of <Link to={`/sessions/${execution.session_id}`}>this session</Link>
              </>
            ) : null}
          </dd>
        </div>
        <div>
          <dt>Claimed</dt>
          <dd>
            by <UntrustedText text={execution.claimed_by.name} />,{" "}
            <AbsoluteTime time={execution.claimed_at} />
            {execution.attempt === 1 ? "" : `, attempt ${execution.attempt}`}
          </dd>
        </div>
        <div>
          <dt>Unknown since</dt>
          <dd>
            <AbsoluteTime time={execution.unknown_at} />
          </dd>
        </div>
        <div>
          <dt>Idempotency key</dt>
          <dd>
            <CopyableId id={execution.idempotency_key} of="idempotency key" />
          </dd>
        </div>
        {resolution === null ? null : (
          <div>
            <dt>Resolved</dt>
            <dd>
              {resolutionTexts[resolution.resolution][0]}, by{" "}
              <UntrustedText text={resolution.resolved_by.name} />,{" "}
              <AbsoluteTime time={resolution.resolved_at} />
              {resolution.comment === null ? null : (
                <>
                  : <UntrustedText text={resolution.comment} />
                </>
              )}
            </dd>
          </div>
        )}
        {outcome === null ? null : (
          <div>
            <dt>Outcome</dt>
            <dd>
              {outcome.status}
              {outcome.error === null ? null : (
                <>
                  : <UntrustedText text={outcome.error} />
                </>
              )}
            </dd>
          </div>
        )}
      </dl>
      <section className="stack" aria-labelledby="arguments">
        <h2 id="arguments">Arguments</h2>
        <JsonTree label="Arguments" value={execution.arguments} />
      </section>
      {!isOpen || !can("approvals.decide") ? null : execution.claimed_by.id === key.id ? (
        <p className="quiet">Your key claimed the step, so another person has to resolve its execution.</p>
      ) : (
        <ResolveForm key={execution.claim_id} execution={execution} onChange={onChange} />
      )}
    </>
  )
}

const resolutionTexts: Record<Resolution, readonly [text: string, explanation: string]> = {
  succeeded: ["It was executed and succeeded", "The agent gets this outcome."],
  failed: ["It was executed and failed", "The agent gets this outcome."],
  not_executed: [
    "It was not executed, and must not be",
    "Its outcome is a failure. The step is not executed any more."
  ],
  retry: ["Execute it once more", "The next claim gets the next attempt, with the same idempotency key."]
}
const resolutions = Record.keys(resolutionTexts).map((one) => [one, ...resolutionTexts[one]] as const)

/** The resolutions that an execution can get. Only the end of its session makes an outcome unknown before the lease ends. */
const resolutionsOf = ({ expires_at, unknown_at }: Execution) =>
  DateTime.isLessThan(unknown_at, expires_at) ? resolutions.filter(([one]) => one !== "retry") : resolutions

const ResolveForm = ({
  execution,
  onChange
}: {
  readonly execution: Execution
  readonly onChange: () => void
}) => {
  const { claim_id, resolution: last } = execution
  const [chosen, setChosen] = useState<Resolution>()
  const kept = useKeptText(`resolution ${claim_id}`)
  const comment = kept.work
  const end = (text: string) => {
    kept.forget()
    showToast(text, { label: "All executions", act: () => navigate("/executions") })
    refreshAlerts()
    refresh(listAtom("unknown"))
    onChange()
  }
  const resolve = useAction((resolution: Resolution) =>
    apiClient.executions
      .resolve({
        params: { claim_id },
        payload: { resolution, ...(comment.trim() === "" ? {} : { comment: comment.trim() }) }
      })
      .pipe(
        Effect.tap(() => Effect.sync(() => end("Execution resolved"))),
        Effect.tapErrorTag("EXECUTION_NOT_UNKNOWN", () =>
          Effect.sync(() => end("The outcome became known meanwhile"))
        )
      )
  )
  return (
    <form
      className="card padded stack"
      aria-labelledby="resolve"
      onSubmit={(event) => {
        event.preventDefault()
        if (chosen !== undefined) void resolve.run(chosen)
      }}
    >
      <h2 id="resolve">{last === null ? "What did you find?" : "Replace the resolution"}</h2>
      <FailureNotice failure={resolve.failure} fields={["comment"]} />
      <RadioField
        isLegendHidden
        legend="Resolution"
        options={resolutionsOf(execution)}
        value={chosen}
        onChange={setChosen}
      />
      <TextAreaField
        label="How you know (optional)"
        hint="It is kept with the step and in the audit log."
        error={fieldError(resolve.failure, "comment")}
        rows={2}
        maxLength={4_000}
        readOnly={resolve.pending}
        value={comment}
        onChange={(text) => kept.setWork(text)}
      />
      <div className="dialog-actions">
        <Button type="submit" kind="primary" pending={resolve.pending} disabled={chosen === undefined}>
          Resolve
        </Button>
      </div>
    </form>
  )
}
