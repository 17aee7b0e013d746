import { Result, Schema } from "effect"
import { useMemo, useState } from "react"
import { makeStepMeter } from "../../../domain/approvals/BudgetMeter.ts"
import { compileRules } from "../../../domain/approvals/CompiledRules.ts"
import type { TaskId } from "../../../domain/Ids.ts"
import { Badge } from "../../ui/Badge.tsx"
import { TextAreaField, TextField } from "../../ui/TextField.tsx"
import { parseJson } from "../../ui/jsonText.ts"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { formatSeconds } from "../../ui/Time.tsx"
import type { RuleDraft } from "./RuleDraft.ts"
import { TaskField } from "./TaskField.tsx"

const isJson = Schema.is(Schema.Json)

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
  const [task, setTask] = useState<TaskId | null>(null)
  const [text, setText] = useState("")
  const parsed = text.trim() === "" ? undefined : parseJson(text)
  const value = parsed !== undefined && Result.isSuccess(parsed) ? parsed.success : undefined
  const compiled = useMemo(() => compileRules(drafts.map(({ rule }) => rule)), [drafts])
  const verdict = compiled.evaluate(
    {
      tool,
      action_class: actionClass,
      task_id: task,
      arguments: isJson(value) ? value : undefined
    },
    // Nothing is used yet.
    makeStepMeter("live", { session_id: "", key_id: "", now: 0 }, () => [])
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
      <TextField
        label="Tool"
        placeholder="payments.refund"
        spellCheck={false}
        value={tool}
        onChange={setTool}
      />
      <TextField label="Action class" spellCheck={false} value={actionClass} onChange={setActionClass} />
      <TaskField hint="The task of the step's session." task={task} onChange={setTask} />
      <TextAreaField
        label="Arguments"
        hint="Optional JSON. Leave empty for a step without arguments."
        error={parsed !== undefined && Result.isFailure(parsed) ? parsed.failure : undefined}
        className="code"
        rows={3}
        spellCheck={false}
        autoCapitalize="off"
        placeholder='{"amount": 100}'
        value={text}
        onChange={setText}
      />
      <div className="verdict" role="status" aria-live="polite">
        {tool === "" || (parsed !== undefined && Result.isFailure(parsed)) ? (
          <p className="quiet">
            {tool === "" ? "Enter a tool to see the result." : "Correct the arguments to see the result."}
          </p>
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
                Review window {formatSeconds(verdict.terms.review_seconds)}
                {verdict.terms.escalation_seconds === null
                  ? ""
                  : ` · then ${formatSeconds(verdict.terms.escalation_seconds)} for the admins`}{" "}
                · on timeout: {verdict.terms.timeout_action === "allow" ? "allow" : "reject"}
              </p>
            ) : null}
          </>
        )}
      </div>
    </section>
  )
}
