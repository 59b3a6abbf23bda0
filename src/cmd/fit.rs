//! `fit`: calculates what of a model fits on some GPUs, and the floors of its times.

mod spec;

use crate::capacity::Hardware;
use crate::cli::{FitArgs, KvType};
use crate::cmd::print_result;
use crate::diagnosis::{Knob, Origin, Settings, Value};
use crate::fit::{GIB, RESERVED, Served, Setup, UTILIZATION};
use crate::plan::{Plan, Source, Variant};
use crate::report::sections::fit::{Fitted, brief, json, refusal};
use crate::roofline::{Gpu, Model, Precision};
use crate::rundir::simulated_settings;
use anyhow::{Context, Result, anyhow, bail};
use std::num::NonZeroU32;

/// Input and output tokens if neither the command line nor a plan has them.
const LENGTHS: (f64, f64) = (512.0, 128.0);

/// Calculates what fits and prints it.
pub(crate) fn fit(args: &FitArgs) -> Result<()> {
    let fitted = fitted(args)?;
    print_result(args.json, &json(&fitted), || brief(&fitted))
}

/// The settings of a plan, as far as it has them.
#[derive(Default)]
struct FromPlan {
    name: Option<String>,
    model: Option<Model>,
    hardware: Hardware,
    settings: Settings,
    lengths: Option<(f64, f64)>,
}

fn fitted(args: &FitArgs) -> Result<Fitted> {
    let plan = match &args.plan {
        Some(path) => from_plan(Plan::load(&Source::find(path)?, &args.set)?)?,
        None => FromPlan::default(),
    };
    let model = served(args, &plan)?;
    let (tensor_parallel, copies) = gpus(args, &plan)?;
    let hardware = match &args.gpu {
        Some(gpu) => Hardware { gpu: Some(gpu.clone()), ..Hardware::default() },
        None => plan.hardware.clone(),
    };
    let hardware = Hardware { tensor_parallel: Some(tensor_parallel), gpus: None, ..hardware };
    let name = hardware.gpu.clone().context("the GPU is missing: add --gpu, or hardware.gpu to the plan")?;
    let known = Gpu::find(&name);
    let machine = hardware.machine(&model.model).with_context(|| unknown_gpu(&name))?;
    let memory = args.gpu_memory.map(|gib| gib.get()).or(known.map(|g| g.usable_gib)).with_context(|| {
        format!(
            "the memory of the GPU \"{name}\" is not known: add --gpu-memory GIB, as nvidia-smi shows it; {}",
            known_gpus()
        )
    })?;
    let (input_tokens, output_tokens) = plan.lengths.unwrap_or(LENGTHS);
    let input_tokens = args.input_tokens.map_or(input_tokens, f64::from);
    let output_tokens = args.output_tokens.map_or(output_tokens, f64::from);
    let count = |knob| plan.settings.count(knob).and_then(|n| u32::try_from(n).ok());
    let max_model_len = args.max_model_len.map(NonZeroU32::get).or_else(|| count(Knob::MaxLength));
    let share = plan.settings.get(Knob::Memory).and_then(|current| current.value.number());
    let setup = Setup {
        machine,
        copies,
        memory: memory * GIB,
        utilization: args.gpu_memory_utilization.or(share).unwrap_or(UTILIZATION),
        reserved: args.reserved.map_or(RESERVED, |gb| gb * 1e9),
        kv_bytes: kv_bytes(args, &plan, &model),
        block_tokens: args.block_size.get(),
        max_model_len: max_model_len
            .or(model.max_len)
            .unwrap_or((input_tokens + output_tokens).ceil().max(1.0) as u32),
        input_tokens,
        output_tokens,
        model,
    };
    let gpu = known.map_or_else(|| name.clone(), |g| g.name.to_owned());
    let fit = setup.fit().map_err(|why| anyhow!(refusal(&setup, &gpu, &why)))?;
    Ok(Fitted {
        gpu,
        fit,
        default_lengths: plan.lengths.is_none()
            && (args.input_tokens.is_none() || args.output_tokens.is_none()),
        default_reserved: args.reserved.is_none(),
        explain: args.explain,
        setup,
    })
}

fn known_gpus() -> String {
    format!("built-in GPUs: {}", Gpu::names())
}

fn unknown_gpu(name: &str) -> String {
    format!(
        "the GPU \"{name}\" is not known; {}; any other in a plan, with hardware.memory-bandwidth",
        known_gpus()
    )
}

/// Returns the model of `--model`, or that of the plan.
fn served(args: &FitArgs, plan: &FromPlan) -> Result<Served> {
    if let Some(spec) = &args.model {
        return spec::read(spec, args.precision).with_context(|| format!("--model {spec}"));
    }
    let model = plan.model.context(match args.plan {
        Some(_) => "the plan has no [model]: add it, or --model with a built-in name, a config.json or figures",
        None => "the model is missing: add --model with a built-in name, a config.json or figures, or a PLAN with [model]",
    })?;
    let name = plan.name.clone().unwrap_or_else(|| "the model of the plan".into());
    let served = spec::of_figures(name, model).context("in [model]")?;
    Ok(args.precision.map_or_else(|| served.clone(), |p| served.in_precision(p)))
}

/// Returns the GPUs of one copy, and the number of copies.
fn gpus(args: &FitArgs, plan: &FromPlan) -> Result<(NonZeroU32, u32)> {
    let of_command = plan.settings.count(Knob::TensorParallel).and_then(|n| u32::try_from(n).ok());
    let declared = plan.hardware.tensor_parallel.or(of_command.and_then(NonZeroU32::new));
    let all = args.gpus.or_else(|| plan.hardware.gpus.filter(|_| args.tensor_parallel.is_none()));
    let each = args.tensor_parallel.or(declared).or(all).unwrap_or(NonZeroU32::MIN);
    let all = all.unwrap_or(each);
    if !all.get().is_multiple_of(each.get()) {
        bail!(
            "tensor-parallel ({each}) does not divide gpus ({all}): it is how many GPUs hold one copy of the model, and gpus those of all \
             copies together; set --tensor-parallel or --gpus"
        );
    }
    Ok((each, all.get() / each.get()))
}

/// Returns the bytes per number in the KV cache.
fn kv_bytes(args: &FitArgs, plan: &FromPlan, model: &Served) -> f64 {
    let auto = if model.model.precision == Some(Precision::Fp32) { 4.0 } else { 2.0 };
    let of_type = |kind| match kind {
        KvType::Auto => auto,
        KvType::Bfloat16 | KvType::Float16 => 2.0,
        KvType::Fp8 => 1.0,
    };
    let word = plan.settings.get(Knob::KvType).map(|current| &current.value);
    let of_command = match word {
        Some(Value::Word(word)) if word.starts_with("fp8") => Some(1.0),
        Some(Value::Word(_) | Value::Count(_) | Value::Share(_) | Value::Switch(_)) | None => None,
    };
    let given = args.kv_bytes.or(args.kv_cache_dtype.map(of_type)).or(model.model.kv_bytes);
    given.or(of_command).unwrap_or(auto)
}

/// Reads what a plan says of its model, hardware, server and lengths.
fn from_plan(mut plan: Plan) -> Result<FromPlan> {
    let mut settings = simulated_settings(&plan).map(|(_, settings)| settings).unwrap_or_default();
    let starts: Vec<_> = plan.variants().iter().filter_map(Variant::start).collect();
    // Variants with different commands have different settings: options then say which are meant.
    if let [start] = &starts[..] {
        settings.read_command(&start.command, Origin::CommandLine);
    }
    let traffic = plan.open_files()?;
    let (input, output) = (traffic.mean_input(), traffic.mean_output());
    let lengths =
        Some((input, output)).filter(|_| input.is_finite() && output.is_finite() && input + output > 0.0);
    Ok(FromPlan {
        name: plan.server.model.clone(),
        model: plan.model,
        hardware: plan.hardware.clone(),
        settings,
        lengths: lengths.map(|(input, output)| (input.round(), output.round())),
    })
}
