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

/** What a step would get from the rules as they stand here, by the very rule that the service decides with. */
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
  const at = drafts.findIndex(({ rule }) => rule.id === verdict.rule_id)
  return (
    <section className="card padded stack tester" aria-labelledby="tester">
      <div>
        <h2 id="tester">What would this step get?</h2>
        <p className="quiet small">
          {changed ? "By the rules as you have them here, not yet saved." : "By the rules in force."}
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
      <Field label="Task" hint="Empty: the step names none.">
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
          <p className="quiet">Name a tool to see.</p>
        ) : (
          <>
            <p>
              {verdict.effect === "allow" ? (
                <Badge tone="good">allowed</Badge>
              ) : verdict.effect === "reject" ? (
                <Badge tone="bad">rejected</Badge>
              ) : (
                <Badge tone="wait">a person is asked</Badge>
              )}{" "}
              {at < 0 ? "by no rule" : `by rule ${at + 1}`}
            </p>
            <p>
              <UntrustedText text={verdict.reason} />
            </p>
            {verdict.effect === "require_approval" ? (
              <p className="quiet small">
                {formatSeconds(verdict.terms.review_seconds)} to decide; in silence the step is{" "}
                {verdict.terms.timeout_action === "allow" ? "allowed" : "rejected"}.
              </p>
            ) : null}
          </>
        )}
      </div>
    </section>
  )
}
