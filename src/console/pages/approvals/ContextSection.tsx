import { Option, type Schema } from "effect"
import { AsyncResult, Atom } from "effect/reactivity"
import { lazy, Suspense, useEffect, useEffectEvent, useMemo } from "react"
import {
  type ApprovalContext,
  type ContextOutcome as ContextOutcomeModel,
  type EarlierStep,
  MAX_TOOL_DECISIONS,
  type ToolHistory
} from "../../../api/Console.ts"
import type { Approval } from "../../../domain/approvals/Approval.ts"
import type { RuleEffect } from "../../../domain/approvals/ApprovalRule.ts"
import type { ApprovalId } from "../../../domain/Ids.ts"
import { usePageTitle } from "../../app/PageTitle.tsx"
import { Link, withQuery } from "../../app/router.tsx"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { consoleClient } from "../../state/consoleClient.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Badge } from "../../ui/Badge.tsx"
import { JsonTree } from "../../ui/JsonTree.tsx"
import { parseStored } from "../../ui/jsonText.ts"
import { summarizeJson } from "../../ui/summarizeJson.ts"
import { formatSeconds, TimeOfDay } from "../../ui/Time.tsx"
import { describeCondition } from "../rules/ConditionDraft.ts"
import { metadataValues } from "../sessions/sessionTitle.ts"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { findRelatedValues } from "./relatedValues.ts"

const contextAtom = Atom.family((id: ApprovalId) =>
  Atom.make(consoleClient.inbox.context({ params: { id } }))
)

/** The polling interval while the tool of an allowed step has no outcome, in milliseconds, and the most polls. */
const OUTCOME_INTERVAL_MS = 3_000
const MAX_POLLS = 100

/** Reads the context again until the agent has reported what became of the tool. */
const useOutcome = (id: ApprovalId, outcome: Approval["outcome"]) => {
  const context = Option.getOrUndefined(AsyncResult.value(useAtomValue(contextAtom(id))))
  const isAwaited = outcome === "allow" && context?.session?.outcome === null
  const poll = useEffectEvent(() => {
    if (!document.hidden) refresh(contextAtom(id))
  })
  useEffect(() => {
    if (!isAwaited) return undefined
    let polls = 0
    const timer = setInterval(() => {
      poll()
      if (++polls >= MAX_POLLS) clearInterval(timer)
    }, OUTCOME_INTERVAL_MS)
    return () => clearInterval(timer)
  }, [isAwaited])
}

/** Who asks, why a person decides and for whom, and what became of the tool. */
export const RequestSection = ({ approval }: { readonly approval: Approval }) => {
  const atom = contextAtom(approval.approval_id)
  const result = useAtomValue(atom)
  useOutcome(approval.approval_id, approval.outcome)
  const session = Option.getOrUndefined(AsyncResult.value(result))?.session
  usePageTitle(
    approval.tool,
    session === undefined || session === null ? undefined : metadataValues(session.metadata)[0]
  )
  return (
    <AsyncContent atom={atom}>
      {(context) => <LoadedRequest approval={approval} context={context} />}
    </AsyncContent>
  )
}

/** An approval can be read and decided without the comparison. */
const TextChanges = lazy(() =>
  import("./TextChanges.tsx").catch(() => ({
    default: () => <p className="quiet">The comparison of changed texts could not be loaded.</p>
  }))
)

/** The lines by which long texts of the arguments differ from those that they replace. Nothing is loaded for arguments without line breaks. */
export const ChangesSection = ({
  approval: { approval_id, arguments: args, tool }
}: {
  readonly approval: Approval
}) => {
  const context = Option.getOrUndefined(AsyncResult.value(useAtomValue(contextAtom(approval_id))))
  const hasLines = useMemo(() => args !== undefined && JSON.stringify(args).includes(String.raw`\n`), [args])
  const earlier = context?.session?.earlier_steps
  const steps = useMemo(
    () =>
      (earlier ?? [])
        .filter((step) => step.tool === tool)
        .map(({ arguments_json, requested_at, step_id }) => ({
          step_id,
          requested_at,
          args: parseStored(arguments_json)
        })),
    [earlier, tool]
  )
  return args === undefined || !hasLines ? null : (
    <Suspense fallback={null}>
      <TextChanges args={args} steps={steps} />
    </Suspense>
  )
}

/** The earlier steps of the session, and how people decided about the tool. `RequestSection` shows a failure to read them. */
export const HistorySection = ({ approval }: { readonly approval: Approval }) => {
  const context = Option.getOrUndefined(AsyncResult.value(useAtomValue(contextAtom(approval.approval_id))))
  return context === undefined ? null : <LoadedHistory approval={approval} context={context} />
}

const LoadedRequest = ({
  approval,
  context: { conditional_rules, reason, requested_by, rule_id, rule_number, session, similar_rule }
}: {
  readonly approval: Approval
  readonly context: ApprovalContext
}) => (
  <>
    {approval.outcome !== "allow" || session === null ? null : (
      <section aria-label="Outcome">
        <h3>Outcome</h3>
        {session.outcome === null ? (
          <p className="quiet">The agent has not reported an outcome yet.</p>
        ) : (
          <Outcome outcome={session.outcome} />
        )}
      </section>
    )}
    <section aria-label="Request">
      <h3>Request</h3>
      <dl className="facts">
        <div>
          <dt>Requested by</dt>
          <dd>
            <UntrustedText text={requested_by.name} />
          </dd>
        </div>
        <div>
          <dt>Why a person decides</dt>
          <dd>
            {reason === null || reason === "" ? (
              rule_id === null ? (
                "No rule matches"
              ) : (
                "A rule requires approval"
              )
            ) : (
              <UntrustedText text={reason} />
            )}{" "}
            {rule_number === null ? (
              <Link to="/rules">Rules</Link>
            ) : (
              <Link to={withQuery("/rules", { rule: rule_id ?? undefined })}>Rule {rule_number}</Link>
            )}
            {similar_rule === null ? null : (
              <p className="notice warn">
                The tool {similar_rule.kind === "look_alike" ? "looks like" : "is similar to"}{" "}
                <UntrustedText text={similar_rule.tool} />, which it is not:{" "}
                <Link to={withQuery("/rules", { rule: similar_rule.id })}>Rule {similar_rule.number}</Link>{" "}
                does not match it.
              </p>
            )}
          </dd>
        </div>
        {conditional_rules.map((rule) => (
          <div key={rule.id}>
            <dt>
              <Link to={withQuery("/rules", { rule: rule.id })}>Rule {rule.number}</Link>{" "}
              {ruleVerbs[rule.effect]} if
            </dt>
            <dd>
              <ul className="conditions">
                {rule.when.map((condition) => {
                  const text = describeCondition(condition)
                  return (
                    <li key={text}>
                      <UntrustedText text={text} />
                    </li>
                  )
                })}
              </ul>
            </dd>
          </div>
        ))}
      </dl>
      {session === null || Object.keys(session.metadata).length === 0 ? null : (
        <JsonTree label="Session metadata" value={session.metadata} />
      )}
    </section>
  </>
)

const ruleVerbs: Readonly<Record<RuleEffect, string>> = {
  allow: "allows it",
  reject: "rejects it",
  require_approval: "asks a person"
}

const LoadedHistory = ({
  approval,
  context: { session, tool_history }
}: {
  readonly approval: Approval
  readonly context: ApprovalContext
}) => (
  <>
    {session === null || session.earlier_steps.length === 0 ? null : (
      <section aria-label="Earlier steps">
        <h3>Earlier steps of the session</h3>
        <RelatedValues args={approval.arguments} steps={session.earlier_steps} />
        <ol className="earlier-steps">
          {session.earlier_steps.map((step) => (
            <Earlier key={step.step_id} step={step} />
          ))}
        </ol>
        {session.more ? (
          <p className="quiet small">
            The session has earlier steps.{" "}
            <Link to={`/sessions/${approval.session_id}`}>View the whole session</Link>
          </p>
        ) : null}
      </section>
    )}
    <section aria-label="Earlier decisions">
      <h3>Earlier decisions about this tool</h3>
      <ToolDecisions history={tool_history} />
    </section>
  </>
)

/** How people decided about the tool. */
const ToolDecisions = ({
  history: { approved, decisions, median_seconds }
}: {
  readonly history: ToolHistory
}) =>
  decisions === 0 ? (
    <p className="quiet">Nobody has decided about this tool yet.</p>
  ) : (
    <p>
      {decisions === 1
        ? "The one decision so far: "
        : decisions < MAX_TOOL_DECISIONS
          ? `${decisions} decisions so far: `
          : `The last ${decisions} decisions: `}
      <strong>{approved} approved</strong>, <strong>{decisions - approved} rejected</strong>
      {median_seconds === null ? "" : `, half of them within ${formatSeconds(median_seconds)}`}.
    </p>
  )

/** The numbers of the arguments that the earlier steps know, or know ten times smaller or larger. */
const RelatedValues = ({
  args,
  steps
}: {
  readonly args: Schema.Json | undefined
  readonly steps: ReadonlyArray<EarlierStep>
}) => {
  const related = findRelatedValues(
    args,
    steps.map(({ arguments_json, outcome, tool }) => ({
      tool,
      values: [arguments_json, outcome?.result_json ?? null].flatMap((text) => {
        const value = parseStored(text)
        return value === undefined ? [] : [value]
      })
    }))
  )
  return related.length === 0 ? null : (
    <ul className="related-values">
      {related.map(({ factor, otherPath, otherValue, path, tool, value }) => (
        <li key={path} className={factor === 1 ? "" : "notice warn"}>
          {/* One element: a notice puts each of its children on a line of its own. */}
          <p>
            <UntrustedText text={path} /> <strong>{String(value)}</strong>{" "}
            {factor === 1
              ? "is equal to"
              : factor > 1
                ? `is ${factor.toLocaleString("en")} times`
                : `is 1/${Math.round(1 / factor).toLocaleString("en")} of`}{" "}
            <UntrustedText text={otherPath} />
            {factor === 1 ? "" : ` ${otherValue}`} of <UntrustedText text={tool} />
          </p>
        </li>
      ))}
    </ul>
  )
}

const decisions = {
  allow: ["good", "Allowed"],
  reject: ["bad", "Rejected"],
  pending: ["wait", "Pending"]
} as const

const Earlier = ({ step }: { readonly step: EarlierStep }) => {
  const [tone, text] = decisions[step.decision]
  const args = parseStored(step.arguments_json)
  return (
    <li>
      <p className="earlier-step-head">
        <span className="tool-name">
          <UntrustedText text={step.tool} />
        </span>
        <Badge tone={tone}>{text}</Badge>
        <span className="quiet small">
          <TimeOfDay time={step.requested_at} />
        </span>
      </p>
      {step.arguments_too_large ? (
        <p className="quiet small">The arguments are too large to show here.</p>
      ) : args === undefined ? null : (
        <Value label={`Arguments of ${step.step_id}`} title="Arguments" value={args} />
      )}
      {step.outcome === null ? null : <Outcome outcome={step.outcome} />}
    </li>
  )
}

const Outcome = ({ outcome }: { readonly outcome: ContextOutcomeModel }) => {
  const result = parseStored(outcome.result_json)
  return (
    <>
      {outcome.status === "failed" ? (
        <p className="small">
          ✕ Tool failed{outcome.error === null ? "" : ": "}
          <UntrustedText text={outcome.error ?? ""} />
        </p>
      ) : (
        <p className="small">✓ Tool succeeded</p>
      )}
      {outcome.result_too_large ? (
        <p className="quiet small">The result is too large to show here.</p>
      ) : result === undefined ? null : (
        <Value label="Result" title="Result" value={result} />
      )}
    </>
  )
}

/** A value in one line, which opens as a tree. */
const Value = ({
  label,
  title,
  value
}: {
  readonly label: string
  readonly title: string
  readonly value: Schema.Json
}) => (
  <details className="earlier-value">
    <summary>
      <span className="quiet">{title}</span> <UntrustedText text={summarizeJson(value).join(" · ")} />
    </summary>
    <JsonTree label={label} value={value} />
  </details>
)
