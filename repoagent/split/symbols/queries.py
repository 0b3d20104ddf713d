"""What counts as a definition, as tree-sitter queries: one per language but JSON, YAML and XML (see
`keys.py`).

A capture `@name` is what it is called, `@<kind>` the node that it is. `@scope` names something that the
definition belongs to without being inside it (the receiver of a Go method). Kind `impl` only lends its name
to what it holds.
"""

from __future__ import annotations

_JAVASCRIPT = """
(function_declaration name: (_) @name) @function
(generator_function_declaration name: (_) @name) @function
(class_declaration name: (_) @name) @class
(method_definition name: (_) @name) @method
(variable_declarator name: (identifier) @name
  value: [(arrow_function) (function_expression) (generator_function)]) @function
(variable_declarator name: (identifier) @name value: (class)) @class
(assignment_expression left: [(member_expression) (identifier)] @name
  right: [(arrow_function) (function_expression) (generator_function)]) @function
(assignment_expression left: [(member_expression) (identifier)] @name right: (class)) @class
(variable_declarator name: (identifier) @name value: (object (method_definition))) @object
"""

_TYPESCRIPT = (
    _JAVASCRIPT
    + """
(public_field_definition name: (_) @name value: [(arrow_function) (function_expression)]) @method
(abstract_class_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(enum_declaration name: (_) @name) @enum
(type_alias_declaration name: (_) @name) @type
(internal_module name: (_) @name) @namespace
(module name: (_) @name) @namespace
(function_signature name: (_) @name) @declaration
(method_signature name: (_) @name) @declaration
(abstract_method_signature name: (_) @name) @declaration
"""
)

_C = """
(function_definition declarator: (_) @name) @function
(declaration declarator: (function_declarator) @name) @declaration
(declaration declarator: (pointer_declarator declarator: (function_declarator)) @name) @declaration
(declaration declarator: (pointer_declarator
  declarator: (pointer_declarator declarator: (function_declarator))) @name) @declaration
(struct_specifier name: (_) @name body: (_)) @struct
(union_specifier name: (_) @name body: (_)) @union
(enum_specifier name: (_) @name body: (_)) @enum
(type_definition type: (struct_specifier !name) declarator: (type_identifier) @name) @struct
(type_definition type: (union_specifier !name) declarator: (type_identifier) @name) @union
(type_definition type: (enum_specifier !name) declarator: (type_identifier) @name) @enum
(preproc_function_def name: (_) @name) @macro
"""

QUERIES: dict[str, str] = {
    "python": """
(function_definition name: (_) @name) @function
(class_definition name: (_) @name) @class
""",
    "javascript": _JAVASCRIPT
    + "(field_definition property: (_) @name value: [(arrow_function) (function_expression)]) @method",
    "typescript": _TYPESCRIPT,
    "tsx": _TYPESCRIPT,
    "java": """
(class_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(enum_declaration name: (_) @name) @enum
(record_declaration name: (_) @name) @class
(annotation_type_declaration name: (_) @name) @interface
(method_declaration name: (_) @name) @method
(constructor_declaration name: (_) @name) @method
(compact_constructor_declaration name: (_) @name) @method
""",
    "go": """
(function_declaration name: (_) @name) @function
(method_declaration
  receiver: (parameter_list (parameter_declaration type: (_) @scope)) name: (_) @name) @method
(type_spec name: (_) @name type: (struct_type)) @struct
(type_spec name: (_) @name type: (interface_type)) @interface
(type_spec name: (_) @name type: [
  (type_identifier) (qualified_type) (pointer_type) (array_type) (slice_type) (map_type) (channel_type)
  (function_type) (generic_type)]) @type
(type_alias name: (_) @name) @type
(method_elem name: (_) @name) @declaration
""",
    "rust": """
(function_item name: (_) @name) @function
(function_signature_item name: (_) @name) @declaration
(struct_item name: (_) @name) @struct
(union_item name: (_) @name) @union
(enum_item name: (_) @name) @enum
(trait_item name: (_) @name) @interface
(mod_item name: (_) @name body: (_)) @namespace
(type_item name: (_) @name) @type
(macro_definition name: (_) @name) @macro
(impl_item type: (_) @name) @impl
""",
    "c": _C,
    "cpp": _C
    + """
(class_specifier name: (_) @name body: (_)) @class
(namespace_definition name: (_) @name) @namespace
(concept_definition name: (_) @name) @type
(alias_declaration name: (_) @name) @type
(field_declaration declarator: (function_declarator) @name) @declaration
(field_declaration declarator: (pointer_declarator declarator: (function_declarator)) @name) @declaration
(field_declaration declarator: (reference_declarator (function_declarator)) @name) @declaration
(declaration declarator: (reference_declarator (function_declarator)) @name) @declaration
""",
    "markdown": """
(atx_heading heading_content: (_)? @name) @heading
(setext_heading heading_content: (_) @name) @heading
""",
    "html": """
(element . (start_tag (tag_name) (attribute (attribute_name) @attribute
  [(attribute_value) @name (quoted_attribute_value (attribute_value) @name)]) (#eq? @attribute "id")))
  @element
(element . (start_tag (tag_name) @attribute (#match? @attribute "^[hH][1-6]$")) (text) @name) @heading
""",
    "css": """
(rule_set (selectors) @name) @selector
(media_statement) @rule
(supports_statement) @rule
(keyframes_statement) @rule
(at_rule) @rule
""",
    "bash": "(function_definition name: (_) @name) @function",
}

# What stands before a definition and belongs to it, beyond what the grammar puts inside it.
COMMENTS: dict[str, str] = {
    "python": "(comment) @comment",
    "javascript": "(comment) @comment (decorator) @comment",
    "typescript": "(comment) @comment (decorator) @comment",
    "tsx": "(comment) @comment (decorator) @comment",
    "java": "(line_comment) @comment (block_comment) @comment",
    "go": "(comment) @comment",
    "rust": "(line_comment) @comment (block_comment) @comment (attribute_item) @comment",
    "c": "(comment) @comment",
    "cpp": "(comment) @comment",
    "json": "(comment) @comment",
    "yaml": "(comment) @comment",
    "xml": "(Comment) @comment",
    "html": "(comment) @comment",
    "css": "(comment) @comment",
    "bash": "(comment) @comment",
}
