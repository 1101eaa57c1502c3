// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program as Split-C. Arrays are named by place and number: `A0` spread, `S1` static, `L2`
//! local.

use std::fmt::Write;

use super::meaning::type_of;
use super::program::{Array, Element, MEMBERS, Operation, Phase, Place, Program, Spot, Statement, TYPES, Type};

fn name_of(of: usize) -> &'static str {
    match TYPES[of] {
        Type::Integer(_, _, name) | Type::Real(_, name) => name,
        Type::Bool => "_Bool",
    }
}

fn element_of(array: &Array) -> String {
    match array.element {
        Element::Scalar(of) => name_of(of).to_owned(),
        Element::Struct => "struct all".to_owned(),
    }
}

struct Text<'a> {
    program: &'a Program,
    out: String,
}

/// The source.
pub fn source(program: &Program, seed: u64) -> String {
    let mut text = Text { program, out: String::new() };
    text.beginning(seed);
    for (number, phase) in program.phases.iter().enumerate() {
        text.phase(number, phase);
    }
    text.ending();
    text.out
}

fn member(spot: Spot) -> String {
    spot.member.map_or(String::new(), |member| format!(".m{member}"))
}

impl Text<'_> {
    fn line(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    fn array(&self, spot: Spot) -> &Array {
        &self.program.arrays[spot.array]
    }

    fn name(&self, number: usize) -> String {
        let letter = self.program.arrays[number].place.letter();
        format!("{letter}{number}")
    }

    fn local(&self, spot: Spot) -> String {
        format!("{}[{}]{}", self.name(spot.array), spot.index, member(spot))
    }

    /// A place of another process, in one of several ways to write it.
    fn global(&self, spot: Spot, shift: usize, form: u32) -> String {
        let (array, name, index, member) = (self.array(spot), self.name(spot.array), spot.index, member(spot));
        let (element, process) = (element_of(array), if shift == 0 { "MYPROC".to_owned() } else { format!("(MYPROC + {shift}) % PROCS") });
        match (array.place, form) {
            (Place::Spread, 0) => format!("{name}[{process}][{index}]{member}"),
            (Place::Spread, 1) => format!("(*((({element} *global)&{name}[{process}][0]) + {index})){member}"),
            (Place::Spread, 2) => format!("(*toglobal({process}, tolocal(&{name}[0][{index}]))){member}"),
            (Place::Spread, _) => format!("(&{name}[{process}][{index}])[0]{member}"),
            (_, 0) => format!("toglobal({process}, {name})[{index}]{member}"),
            (_, 1) => format!("(*toglobal({process}, &{name}[{index}])){member}"),
            (_, _) => format!("(*(toglobal({process}, {name}) + {index})){member}"),
        }
    }

    fn beginning(&mut self, seed: u64) {
        self.line(&format!("/* Random program {seed}. */\n#include <stdio.h>\n#include <stdlib.h>\n#include <split-c/split-c.h>"));
        self.line("struct all {");
        for (number, of) in MEMBERS.iter().enumerate() {
            self.line(&format!("    {} m{number};", name_of(*of)));
        }
        self.line("};");
        let mut made: Vec<usize> = MEMBERS.to_vec();
        made.extend(self.program.arrays.iter().flat_map(|array| array.element.types()));
        made.sort_unstable();
        made.dedup();
        for of in made {
            let (value, back) = match TYPES[of] {
                Type::Integer(..) => ("bits".to_owned(), "(unsigned long)x".to_owned()),
                Type::Real(width, name) => (format!("({name})((long)bits % (1L << {width})) / 4"), "(unsigned long)(long)(x * 4)".to_owned()),
                Type::Bool => ("bits & 1".to_owned(), "(unsigned long)x".to_owned()),
            };
            let name = name_of(of);
            self.line(&format!(
                "static {name} make_{of}(unsigned long bits) {{ return {value}; }}\nstatic unsigned long back_{of}({name} x) {{ return {back}; }}"
            ));
        }
        self.line("#define FIRST(array, at) ((unsigned long)(MYPROC * 7919UL + (array) * 104729UL + (at)) * 0x9e3779b97f4a7c15UL)");
        self.line("#define SUM(x) sum = (sum ^ (x)) * 1099511628211UL");
        for (number, array) in self.program.arrays.iter().enumerate().filter(|(_, array)| array.place == Place::Static) {
            let _ = writeln!(self.out, "static {} S{number}[{}];", element_of(array), array.length);
        }
    }

    /// Parameters of a phase: bounds of the spread arrays, then arrays.
    fn parameters(&self, is_declared: bool) -> String {
        let mut all = vec![if is_declared { "int procs".to_owned() } else { "PROCS".to_owned() }];
        for (number, array) in self.program.arrays.iter().enumerate() {
            let (name, element) = (self.name(number), element_of(array));
            match (array.place, is_declared) {
                (Place::Static, _) => {}
                (Place::Spread, true) => all.push(format!("int n{number}, {element} {name}[procs]::[n{number}]")),
                (Place::Spread, false) => all.push(format!("n{number}, {name}")),
                (Place::Local, true) => all.push(format!("{element} *{name}")),
                (Place::Local, false) => all.push(name),
            }
        }
        all.join(", ")
    }

    fn phase(&mut self, number: usize, phase: &Phase) {
        let head = format!("static void phase_{number}({}) {{", self.parameters(true));
        self.line(&head);
        let mut stored: Vec<String> = Vec::new();
        for statement in &phase.statements {
            let line = self.statement(statement, &mut stored);
            self.line(&format!("    {line}"));
        }
        self.line("    sync();");
        if phase.waits_alone && !stored.is_empty() {
            self.line(&format!("    store_sync({});", stored.join(" + ")));
            self.line("    barrier();");
        } else {
            self.line("    all_store_sync();");
        }
        self.line("}");
    }

    fn statement(&self, statement: &Statement, stored: &mut Vec<String>) -> String {
        match statement {
            Statement::In { get, to, from, shift, form } => {
                format!("{} {} {};", self.local(*to), if *get { ":=" } else { "=" }, self.global(*from, *shift, *form))
            }
            Statement::Out { operation, to, value, shift, form } => {
                let of = type_of(&self.program.arrays, *to);
                if *operation == Operation::Store {
                    stored.push(format!("sizeof({})", name_of(of)));
                }
                let from = value.from.map_or("0UL".to_owned(), |spot| format!("back_{}({})", type_of(&self.program.arrays, spot), self.local(spot)));
                let [a, b, c] = value.factors;
                format!("{} {} make_{of}({from} * {a}UL + MYPROC * {b}UL + {c}UL);", self.global(*to, *shift, *form), sign(*operation))
            }
            Statement::Copy { operation, to, from, shift, form } => {
                if *operation == Operation::Store {
                    stored.push(format!("sizeof({})", element_of(self.array(*to))));
                }
                format!("{} {} {};", self.global(*to, *shift, *form), sign(*operation), self.local(*from))
            }
            Statement::Bulk { operation, local, global, count, shift, form } => {
                let bytes = format!("{count} * sizeof({})", element_of(self.array(*local)));
                let (local, global) = (format!("&{}", self.local(*local)), format!("&{}", self.global(*global, *shift, *form)));
                match operation {
                    Operation::Read => format!("bulk_read({local}, {global}, {bytes});"),
                    Operation::Get => format!("bulk_get({local}, {global}, {bytes});"),
                    Operation::Write => format!("bulk_write({global}, {local}, {bytes});"),
                    Operation::Put => format!("bulk_put({global}, {local}, {bytes});"),
                    Operation::Store => {
                        stored.push(bytes.clone());
                        format!("bulk_store({global}, {local}, {bytes});")
                    }
                }
            }
        }
    }

    /// Does `each` with every scalar of an array of this process.
    fn scalars(&mut self, number: usize, each: impl Fn(usize, &str, &str) -> String) {
        let array = self.program.arrays[number].clone();
        let name = if array.place == Place::Spread { format!("own{number}") } else { self.name(number) };
        let types = array.element.types();
        self.line(&format!("        for (i = 0; i < {}; i++) {{", array.length));
        for (at, of) in types.iter().enumerate() {
            let place = if array.element == Element::Struct { format!("{name}[i].m{at}") } else { format!("{name}[i]") };
            let line = each(*of, &place, &format!("i * {} + {at}", types.len()));
            self.line(&format!("            {line}"));
        }
        self.line("        }");
    }

    fn ending(&mut self) {
        self.line("splitc_main(argc, argv) char **argv; {\n    int i;");
        for (number, array) in self.program.arrays.iter().enumerate() {
            let (element, length) = (element_of(array), array.length);
            let _ = match array.place {
                Place::Spread => writeln!(self.out, "    int n{number} = {length} + argc - 1;"),
                Place::Local => writeln!(self.out, "    {element} L{number}[{length}];"),
                Place::Static => Ok(()),
            };
        }
        self.line("    {");
        for (number, array) in self.program.arrays.iter().enumerate().filter(|(_, array)| array.place == Place::Spread) {
            let element = element_of(array);
            let _ = writeln!(self.out, "        {element} A{number}[PROCS]::[n{number}], *own{number} = tolocal(A{number}[MYPROC]);");
        }
        for number in 0..self.program.arrays.len() {
            self.scalars(number, |of, place, at| format!("{place} = make_{of}(FIRST({number}, {at}));"));
        }
        self.line("        barrier();");
        for phase in 0..self.program.phases.len() {
            let call = format!("        phase_{phase}({});", self.parameters(false));
            self.line(&call);
            for number in 0..self.program.arrays.len() {
                self.line("        {\n        unsigned long sum = 14695981039346656037UL;");
                self.scalars(number, |of, place, _| format!("SUM(back_{of}({place}));"));
                let name = self.name(number);
                self.line(&format!("        printf(\"%02d {phase:02} {}{number:02} %016lx\\n\", MYPROC, sum);\n        }}", &name[..1]));
            }
            self.line("        barrier();");
        }
        self.line("    }\n    return 0;\n}");
    }
}

fn sign(operation: Operation) -> &'static str {
    match operation {
        Operation::Put | Operation::Get => ":=",
        Operation::Store => ":-",
        Operation::Read | Operation::Write => "=",
    }
}
