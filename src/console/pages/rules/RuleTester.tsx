import { Schema } from "effect"
import { useState } from "react"
import { evaluateRules } from "../../../domain/approvals/ApprovalRule.ts"
import { TaskId } from "../../../domain/Ids.ts"
import { Badge } from "../../ui/Badge.tsx"
import { Field } from "../../ui/Field.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { formatSeconds } from "../../ui/Time.tsx"
import type { RuleDraft } from "./RuleDraft.ts"

const isTaskId = Schema.is(TaskId)

/** Evaluates a step against the edited rules, with the same function that the server uses. */
export const RuleTester = ({
  changed,
  drafts
}: {
  readonly drafts: ReadonlyArray<RuleDraft>
  readonly changed: boolean
}) => {
  const [tool, setTool] = useState("")
  const [actionClass, setActionClass] = useState("write")
  const [task, setTask] = useState("")
  const verdict = evaluateRules(
    drafts.map(({ rule }) => rule),
    { tool, action_class: actionClass, task_id: isTaskId(task) ? task : null }
  )
  const index = drafts.findIndex(({ rule }) => rule.id === verdict.rule_id)
  return (
    <section className="card padded stack tester" aria-labelledby="tester">
      <div>
        <h2 id="tester">Test a step</h2>
        <p className="quiet small">
          {changed ? "Uses the unsaved rules on this page." : "Uses the saved rules."}
        </p>
      </div>
      <Field label="Tool">
        {(field) => (
          <input
            {...field}
            placeholder="payments.refund"
            spellCheck={false}
            value={tool}
            onChange={(event) => setTool(event.target.value)}
          />
        )}
      </Field>
      <Field label="Action class">
        {(field) => (
          <input
            {...field}
            spellCheck={false}
            value={actionClass}
            onChange={(event) => setActionClass(event.target.value)}
          />
        )}
      </Field>
      <Field label="Task" hint="Optional. Leave empty for a step without a task.">
        {(field) => (
          <input
            {...field}
            placeholder="tsk_…"
            spellCheck={false}
            value={task}
            onChange={(event) => setTask(event.target.value.trim())}
          />
        )}
      </Field>
      <div className="verdict" role="status" aria-live="polite">
        {tool === "" ? (
          <p className="quiet">Enter a tool to see the result.</p>
        ) : (
          <>
            <p>
              {verdict.effect === "allow" ? (
                <Badge tone="good">Allowed</Badge>
              ) : verdict.effect === "reject" ? (
                <Badge tone="bad">Rejected</Badge>
              ) : (
                <Badge tone="wait">Approval required</Badge>
              )}{" "}
              {index < 0 ? "No rule matches" : `Matches rule ${index + 1}`}
            </p>
            <p>
              <UntrustedText text={verdict.reason} />
            </p>
            {verdict.effect === "require_approval" ? (
              <p className="quiet small">
                Review window {formatSeconds(verdict.terms.review_seconds)} · on timeout:{" "}
                {verdict.terms.timeout_action === "allow" ? "allow" : "reject"}
              </p>
            ) : null}
          </>
        )}
      </div>
    </section>
  )
}
