/** A form for a JSON value, made from its JSON Schema. */
import { JsonPointer, type Schema } from "effect"
import { type ReactNode, useId, useState } from "react"
import { Button } from "../Button.tsx"
import { Field, type FieldProps } from "../Field.tsx"
import { Select } from "../Select.tsx"
import { UntrustedText } from "../UntrustedText.tsx"
import { shapeOf } from "./shapeOf.ts"
import { type DraftFault, emptyDraft, faultsAt, type ValueDraft } from "./ValueDraft.ts"

interface SchemaFormProps {
  /** The whole schema, to which references point. */
  readonly root: Schema.Json
  readonly draft: ValueDraft
  readonly onChange: (draft: ValueDraft) => void
  /** Faults with the place of each, as the service names it. */
  readonly faults: ReadonlyArray<DraftFault>
  /** Where the value is in the request. */
  readonly path: ReadonlyArray<string>
  /** The name of the whole value. */
  readonly label: string
}

/** Fields for a value of the schema `root`. Values that no form can show are edited as JSON. */
export const SchemaForm = ({ draft, faults, label, onChange, path, root }: SchemaFormProps) => (
  <div className="schema-form">
    <ValueField
      root={root}
      schema={root}
      draft={draft}
      onChange={onChange}
      faults={faults}
      path={path}
      label={label}
      actions={null}
    />
  </div>
)

interface ValueFieldProps extends SchemaFormProps {
  readonly schema: Schema.Json | undefined
  /** Buttons beside the label, such as "Remove". */
  readonly actions: ReactNode
}

const ValueField = (props: ValueFieldProps) => {
  const { draft, root, schema } = props
  const described = schema === undefined ? undefined : shapeOf(root, schema)
  const actions = (
    <>
      {described?.nullable !== true ? null : draft.kind === "null" ? (
        <Button small kind="bare" onClick={() => props.onChange(emptyDraft(root, schema))}>
          Set a value <span className="visually-hidden">of {props.label}</span>
        </Button>
      ) : (
        <Button small kind="bare" onClick={() => props.onChange({ kind: "null" })}>
          Set to null <span className="visually-hidden">of {props.label}</span>
        </Button>
      )}
      {props.actions}
    </>
  )
  const hint =
    described?.description === undefined ? undefined : <UntrustedText text={described.description} />
  if (draft.kind === "object") return <ObjectField {...props} draft={draft} actions={actions} hint={hint} />
  if (draft.kind === "array") return <ArrayField {...props} draft={draft} actions={actions} hint={hint} />
  return <LeafField {...props} draft={draft} actions={actions} hint={hint} />
}

type Kind<K extends ValueDraft["kind"]> = Extract<ValueDraft, { readonly kind: K }>

interface WithHint {
  readonly hint: ReactNode
}

const textOf = (faults: ReadonlyArray<DraftFault>, path: ReadonlyArray<string>): string | undefined => {
  const pointer = JsonPointer.formatUriFragment(path)
  return faults.length === 0
    ? undefined
    : faults
        .map((fault) =>
          fault.pointer === pointer ? fault.detail : `${fault.pointer.slice(pointer.length)}: ${fault.detail}`
        )
        .join(" ")
}

/** How long a text is edited in one line. */
const MAX_LINE = 80

const LeafField = ({
  actions,
  draft,
  faults,
  hint,
  label,
  onChange,
  path,
  root,
  schema
}: Omit<ValueFieldProps, "draft"> &
  WithHint & { readonly draft: Kind<"text" | "number" | "choice" | "null" | "json"> }) => {
  const error = textOf(
    faultsAt(faults, path, () => false),
    path
  )
  const input = (field: FieldProps) => {
    switch (draft.kind) {
      case "null":
        return (
          <p className="quiet schema-null" id={field.id}>
            null
          </p>
        )
      case "choice":
        return (
          <Choice
            field={field}
            options={optionsOf(root, schema)}
            value={draft.value}
            onChange={(value) => onChange({ kind: "choice", value })}
          />
        )
      case "number":
        return (
          <input
            {...field}
            className="schema-number"
            inputMode="decimal"
            autoComplete="off"
            value={draft.text}
            onChange={({ target }) => onChange({ kind: "number", text: target.value })}
          />
        )
      case "text":
        return (
          <textarea
            {...field}
            rows={draft.text.length > MAX_LINE || draft.text.includes("\n") ? 4 : 1}
            value={draft.text}
            onChange={({ target }) => onChange({ kind: "text", text: target.value })}
          />
        )
      case "json":
        return (
          <textarea
            {...field}
            className="code"
            rows={Math.min(16, Math.max(2, draft.text.split("\n").length))}
            spellCheck={false}
            autoCapitalize="off"
            value={draft.text}
            onChange={({ target }) => onChange({ kind: "json", text: target.value })}
          />
        )
    }
  }
  return (
    <div className="schema-leaf">
      <Field
        label={
          <>
            <UntrustedText text={label} />
            {draft.kind === "json" ? <span className="quiet"> (JSON)</span> : null}
          </>
        }
        {...(hint === undefined ? {} : { hint })}
        error={error}
      >
        {input}
      </Field>
      <span className="schema-actions">{actions}</span>
    </div>
  )
}

const optionsOf = (root: Schema.Json, schema: Schema.Json | undefined): ReadonlyArray<Schema.Json> => {
  if (schema === undefined) return []
  const { shape } = shapeOf(root, schema)
  return shape.kind === "choice" ? shape.options : []
}

/** A choice of JSON values, by their position: two of them can have one text. */
const Choice = ({
  field,
  onChange,
  options,
  value
}: {
  readonly field: FieldProps
  readonly options: ReadonlyArray<Schema.Json>
  readonly value: Schema.Json | undefined
  readonly onChange: (value: Schema.Json | undefined) => void
}) => {
  const text = JSON.stringify(value)
  const index = options.findIndex((option) => JSON.stringify(option) === text)
  return (
    <Select
      {...field}
      value={index === -1 ? undefined : index}
      onChange={(at) => onChange(at === undefined ? undefined : options[at])}
      options={[
        ...(index === -1 ? [[undefined, "Choose…"] as const] : []),
        ...options.map(
          (option, at) => [at, typeof option === "string" ? option : JSON.stringify(option)] as const
        )
      ]}
    />
  )
}

/** The name of a group of fields, its hint and its own faults. */
const Group = ({
  actions,
  children,
  error,
  hint,
  isRoot,
  label
}: WithHint & {
  readonly label: string
  readonly actions: ReactNode
  readonly error: string | undefined
  readonly isRoot: boolean
  readonly children: ReactNode
}) => {
  const id = useId()
  return (
    <div
      role="group"
      aria-labelledby={id}
      aria-describedby={error === undefined ? undefined : `${id}-error`}
      className={isRoot ? "schema-group root" : "schema-group"}
    >
      <div className="schema-group-head">
        <span id={id} className={isRoot ? "visually-hidden" : "legend"}>
          <UntrustedText text={label} />
        </span>
        <span className="schema-actions">{actions}</span>
      </div>
      {hint === undefined ? null : <p className="hint">{hint}</p>}
      {error === undefined ? null : (
        <p className="field-error" id={`${id}-error`}>
          {error}
        </p>
      )}
      {children}
    </div>
  )
}

const ObjectField = (
  props: Omit<ValueFieldProps, "draft"> & WithHint & { readonly draft: Kind<"object"> }
) => {
  const { actions, draft, faults, hint, label, onChange, path, root, schema } = props
  const described = schema === undefined ? undefined : shapeOf(root, schema).shape
  const shape = described?.kind === "object" ? described : undefined
  const names = new Set(draft.members.map(({ name }) => name))
  const set = (members: Kind<"object">["members"]) => onChange({ kind: "object", members })
  const missing = shape?.properties.filter(({ name }) => !names.has(name)) ?? []
  const error = textOf(
    faultsAt(faults, path, (name) => names.has(name)),
    path
  )
  return (
    <Group label={label} actions={actions} hint={hint} error={error} isRoot={schema === root}>
      {draft.members.map(({ draft: member, name }) => {
        const property = shape?.properties.find((one) => one.name === name)
        return (
          <ValueField
            key={name}
            root={root}
            schema={property?.schema ?? shape?.others}
            draft={member}
            faults={faults}
            path={[...path, name]}
            label={name}
            onChange={(next) =>
              set(draft.members.map((one) => (one.name === name ? { name, draft: next } : one)))
            }
            actions={
              property?.required === true ? null : (
                <Button
                  small
                  kind="bare"
                  onClick={() => set(draft.members.filter((one) => one.name !== name))}
                >
                  Remove <span className="visually-hidden">{name}</span>
                </Button>
              )
            }
          />
        )
      })}
      {missing.length === 0 && shape?.others === undefined ? null : (
        <div className="schema-add">
          {missing.map(({ name, schema: property }) => (
            <Button
              key={name}
              small
              onClick={() => set([...draft.members, { name, draft: emptyDraft(root, property) }])}
            >
              Add <UntrustedText text={name} />
            </Button>
          ))}
          {shape?.others === undefined ? null : (
            <NewMember
              taken={names}
              onAdd={(name) => set([...draft.members, { name, draft: emptyDraft(root, shape.others) }])}
            />
          )}
        </div>
      )}
    </Group>
  )
}

/** A field for the name of a further member. */
const NewMember = ({
  onAdd,
  taken
}: {
  readonly taken: ReadonlySet<string>
  readonly onAdd: (name: string) => void
}) => {
  const [name, setName] = useState("")
  const add = () => {
    if (name === "" || taken.has(name)) return
    onAdd(name)
    setName("")
  }
  return (
    <span className="schema-new">
      <input
        aria-label="Name of another field"
        placeholder="Name of another field"
        value={name}
        onChange={({ target }) => setName(target.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter") return
          event.preventDefault()
          add()
        }}
      />
      <Button small onClick={add}>
        Add
      </Button>
    </span>
  )
}

const ArrayField = (props: Omit<ValueFieldProps, "draft"> & WithHint & { readonly draft: Kind<"array"> }) => {
  const { actions, draft, faults, hint, label, onChange, path, root, schema } = props
  const described = schema === undefined ? undefined : shapeOf(root, schema).shape
  const item = described?.kind === "array" ? described.item : undefined
  const set = (items: Kind<"array">["items"]) => onChange({ kind: "array", items })
  const error = textOf(
    faultsAt(faults, path, (name) => Number(name) < draft.items.length),
    path
  )
  return (
    <Group label={label} actions={actions} hint={hint} error={error} isRoot={false}>
      {draft.items.map((one, index) => (
        <ValueField
          key={index}
          root={root}
          schema={item}
          draft={one}
          faults={faults}
          path={[...path, String(index)]}
          label={`${label} ${index + 1}`}
          onChange={(next) => set(draft.items.with(index, next))}
          actions={
            <Button small kind="bare" onClick={() => set(draft.items.toSpliced(index, 1))}>
              Remove{" "}
              <span className="visually-hidden">
                {label} {index + 1}
              </span>
            </Button>
          }
        />
      ))}
      <div className="schema-add">
        <Button small onClick={() => set([...draft.items, emptyDraft(root, item)])}>
          Add item <span className="visually-hidden">to {label}</span>
        </Button>
      </div>
    </Group>
  )
}
