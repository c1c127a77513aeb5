"""Random one-operator models: what each TFLite operator is drawn as, and TensorFlow Lite Micro."""
